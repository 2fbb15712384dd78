"""Aggregate: one row per group of each grouping set.

Null is a key like any other. Over no rows there is no group, except in the empty grouping set, which has one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ... import ir
from ...ir.arrow_types import sql_type
from ..expression_writer import reads_enclosing_rows_alone
from ..table import Table, group_by, select_list
from ..writer import Writer

_ASKED: Final = 60
"""The most keys of one GROUPING: each key is a bit of a number."""

_MANY: Final = 64
"""More grouping sets are groups of one set over copies of the rows. DuckDB has a hash table for each set: for a single
row 1,600 of them take 3 s and 3 GB, and copies 0.1 s.
"""


def select_aggregate(relation: ir.Aggregate, table: Table, writer: Writer) -> str:
    if not table.columns and any(map(reads_enclosing_rows_alone, relation.measures)):
        table = table.with_a_column
        writer = writer.over(table)
    if len(relation.grouping_sets) > _MANY:
        return _copied_for_sets(relation, table, writer)
    if len(relation.grouping_sets) > 1:
        return _grouping_sets(relation, table, writer)
    grouped = set(relation.grouping_sets[0]) if relation.grouping_sets else set()
    keys = [writer.column(key) if at in grouped else _null(key) for at, key in enumerate(relation.keys)]
    measures = [writer.measure(measure) for measure in relation.measures]
    if not grouped and not measures:
        return f"SELECT {select_list((*keys, 'count(*)')[: max(len(keys), 1)])} FROM {table.item} HAVING count(*) >= 0"
    return f"SELECT {select_list((*keys, *measures))} FROM {table.item}{group_by(sorted(grouped))}"


def _null(key: ir.Expression) -> str:
    return f"CAST(NULL AS {sql_type(key.type)})"


def _grouping_sets(relation: ir.Aggregate, table: Table, writer: Writer) -> str:
    """The SELECT of several grouping sets. Keys become columns first, so that equal keys are still two. GROUPING gives
    the set's number and is called once: DuckDB makes a column, in every set, of each call.
    """
    keyed = writer.table(
        f"SELECT {select_list((*table.columns, *map(writer.column, relation.keys)))} FROM {table.item}",
        table.width + len(relation.keys),
    )
    names = keyed.columns[table.width :]
    measures = [writer.over(keyed).measure(measure) for measure in relation.measures]
    used = {at for grouping_set in relation.grouping_sets for at in grouping_set}
    keys = [name if at in used else _null(relation.keys[at]) for at, name in enumerate(names)]
    numbers: dict[frozenset[int], list[int]] = {}
    for number, grouping_set in enumerate(relation.grouping_sets):
        numbers.setdefault(frozenset(grouping_set), []).append(number)
    sets = ", ".join(f"({', '.join(names[at] for at in sorted(grouping_set))})" for grouping_set in numbers)
    parts = [sorted(used)[at : at + _ASKED] for at in range(0, len(used), _ASKED)]
    masks = [f"GROUPING({', '.join(names[at] for at in part)})" for part in parts]
    columns = (*keys, *measures, *masks) or ("count(*)",)
    grouped = writer.table(
        f"SELECT {', '.join(columns)} FROM {keyed.item} GROUP BY GROUPING SETS ({sets})", len(columns)
    )
    own, mask_names = grouped.columns[: len(keys) + len(measures)], grouped.columns[len(keys) + len(measures) :]
    return f"SELECT {', '.join((*own, _set_number(numbers, parts, mask_names[: len(masks)])))} FROM {grouped.item}"


def _copied_for_sets(relation: ir.Aggregate, table: Table, writer: Writer) -> str:
    """The SELECT of many grouping sets: a copy of each row for each set, with nulls for keys that are not in the set,
    grouped by the keys and the set's number. Over no rows the second grouping set, the empty one, has the only group:
    the row of each empty set of the plan.
    """
    sets = [frozenset(grouping_set) for grouping_set in relation.grouping_sets]
    numbered = writer.table(
        f"SELECT {select_list((*table.columns, *map(writer.column, relation.keys)))}, unnest(range({len(sets)})) "
        f"FROM {table.item}",
        table.width + len(relation.keys) + 1,
    )
    *_, number = numbered.columns
    members = (
        f"CASE WHEN get_bit(CAST('{''.join(str(int(at in grouping_set)) for grouping_set in sets)}' AS BIT), "
        f"CAST({number} AS INTEGER)) = 1 THEN {key} END"
        for at, key in enumerate(numbered.columns[table.width : -1])
    )
    copied = writer.table(
        f"SELECT {', '.join((*numbered.columns[: table.width], *members, number))} FROM {numbered.item}", numbered.width
    )
    *keys, number = copied.columns[table.width :]
    measures = [writer.over(copied).measure(measure) for measure in relation.measures]
    by = ", ".join((*keys, number))
    empty = [position for position, grouping_set in enumerate(sets) if not grouping_set]
    if not empty:
        return (
            f"SELECT {', '.join((*keys, *measures, f'CAST({number} AS INTEGER)'))} FROM {copied.item} GROUP BY ({by})"
        )
    own = f"unnest(CASE WHEN {number} IS NULL THEN {empty} ELSE [{number}] END)"
    return (
        f"SELECT {', '.join((*keys, *measures, f'CAST({own} AS INTEGER)'))} FROM {copied.item} "
        f"GROUP BY GROUPING SETS (({by}), ()) HAVING GROUPING({number}) = 0 OR count(*) = 0"
    )


def _set_number(numbers: dict[frozenset[int], list[int]], parts: Sequence[Sequence[int]], masks: Sequence[str]) -> str:
    """The set's number, from the result of GROUPING for each part of the keys. A set that occurs twice has its rows
    twice, under both numbers.
    """
    repeated = any(len(positions) > 1 for positions in numbers.values())
    branches = []
    for grouping_set, positions in numbers.items():
        pairs = zip(masks, parts, strict=True)
        test = " AND ".join(f"{mask} = {_mask(grouping_set, part)}" for mask, part in pairs) or "true"
        branches.append(f"WHEN {test} THEN {positions if repeated else positions[0]}")
    number = f"CASE {' '.join(branches)} END"
    return f"CAST({f'unnest({number})' if repeated else number} AS INTEGER)"


def _mask(grouped: frozenset[int], keys: Sequence[int]) -> int:
    """The value of GROUPING for these keys: a bit for each key that is not grouped by. The last key's bit is the
    lowest.
    """
    return int("".join(str(int(at not in grouped)) for at in keys), 2)
