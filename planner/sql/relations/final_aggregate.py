"""FinalAggregate: one row per group of all channels' groups, with its measures from their states."""

from __future__ import annotations

from ... import ir
from ...ir.arrow_types import sql_type
from ..states import render_total, states_of
from ..table import Table, group_by, select_list


def select_final_aggregate(relation: ir.FinalAggregate | ir.FinalDenseSlices, table: Table) -> str:
    keys, states = table.columns[: relation.keys], table.columns[relation.keys :]
    measures = []
    for measure in relation.measures:
        width = len(states_of(measure) or ())
        mine, states = states[:width], states[width:]
        measures.append(f"CAST({render_total(measure, mine)} AS {sql_type(measure.type)})")
    return f"SELECT {select_list((*keys, *measures))} FROM {table.item}{group_by(range(len(keys)))}"
