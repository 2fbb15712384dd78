"""PartialAggregate: one row per group of what a channel has, with the states of its measures."""

from __future__ import annotations

from ... import ir
from ..states import render_states
from ..table import Table, group_by, select_list
from ..writer import Writer


def select_partial_aggregate(relation: ir.PartialAggregate, table: Table, writer: Writer) -> str:
    keys = [writer.column(key) for key in relation.keys]
    states = [column for measure in relation.measures for column in render_states(measure, writer.scope)]
    return f"SELECT {select_list((*keys, *states))} FROM {table.item}{group_by(range(len(keys)))}"
