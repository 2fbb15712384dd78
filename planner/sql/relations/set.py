"""Set operations over any number of inputs. Rows are the same if every column is, two nulls included.

The copies that come out of a row that is m times in the first input and n1, n2, ... times in the other inputs:

- MINUS_PRIMARY once if all of n are 0; MINUS_PRIMARY_ALL max(0, m - sum(n)); MINUS_MULTISET m unless every n > 0;
- INTERSECTION_PRIMARY once if any n > 0; INTERSECTION_MULTISET once if every n > 0; INTERSECTION_MULTISET_ALL
  min(m, n1, n2, ...);
- UNION_DISTINCT once; UNION_ALL m + sum(n), input after input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from ... import ir
from ..table import Table, gathered, group_by
from ..writer import Writer

_WIDE: Final = 1_000
"""More columns than these are grouped by instead of a DISTINCT."""
_WIDE_FORMS: Final = (
    ir.SetOperation.UNION_DISTINCT,
    ir.SetOperation.MINUS_PRIMARY,
    ir.SetOperation.INTERSECTION_PRIMARY,
    ir.SetOperation.INTERSECTION_MULTISET,
)


def select_set(relation: ir.Set, selects: Sequence[str], writer: Writer) -> str:
    if len(selects) == 1 and relation.operation in (ir.SetOperation.UNION_ALL, ir.SetOperation.MINUS_PRIMARY_ALL):
        return selects[0]
    first, others = selects[0], selects[1:]
    width = max(len(relation.schema), 1)
    if width > _WIDE and relation.operation in _WIDE_FORMS:
        return _wide(relation.operation, first, others, width, writer)
    match relation.operation:
        case ir.SetOperation.UNION_ALL:
            return _plain(_combined("UNION ALL", selects))
        case ir.SetOperation.UNION_DISTINCT:
            return _distinct(_combined("UNION ALL", selects))
        case ir.SetOperation.MINUS_PRIMARY_ALL:  # in DuckDB a window, which numbers copies, and a join
            return _plain(f"({gathered(first)}) EXCEPT ALL ({gathered(_combined('UNION ALL', others))})")
        case ir.SetOperation.MINUS_PRIMARY:
            return _plain(f"({first}) EXCEPT ({_combined('UNION ALL', others)})") if others else _distinct(first)
        case ir.SetOperation.INTERSECTION_PRIMARY:
            return _plain(f"({first}) INTERSECT ({_combined('UNION ALL', others)})") if others else _distinct(first)
        case ir.SetOperation.INTERSECTION_MULTISET:
            return _plain(_combined("INTERSECT", selects)) if others else _distinct(first)
        case ir.SetOperation.INTERSECTION_MULTISET_ALL:
            return _plain(_combined("INTERSECT ALL", list(map(gathered, selects))))
        case ir.SetOperation.MINUS_MULTISET:
            return _minus_multiset(first, others, width, writer)
        case _:
            assert_never(relation.operation)


def _wide(operation: ir.SetOperation, first: str, others: Sequence[str], width: int, writer: Writer) -> str:
    """The rows of many columns once each, with GROUP BY: DuckDB compares the columns of a DISTINCT in pairs, and those
    of EXCEPT and INTERSECT, which are joins and a DISTINCT.
    """
    if operation is ir.SetOperation.UNION_DISTINCT:
        return _grouped(writer.table(_combined("UNION ALL", (first, *others)), width))
    kind = "ANTI" if operation is ir.SetOperation.MINUS_PRIMARY else "SEMI"
    if operation is ir.SetOperation.INTERSECTION_MULTISET:
        for other in others:
            first = _matched(kind, first, other, width, writer)
    elif others:
        first = _matched(kind, first, _combined("UNION ALL", others), width, writer)
    return _grouped(writer.table(first, width))


def _grouped(table: Table) -> str:
    return f"SELECT {', '.join(table.columns)} FROM {table.item}{group_by(range(table.width))}"


def _minus_multiset(first: str, others: Sequence[str], width: int, writer: Writer) -> str:
    if not others:
        return first
    return _matched("ANTI", first, _combined("INTERSECT", others), width, writer)


def _matched(kind: str, first: str, other: str, width: int, writer: Writer) -> str:
    """The rows of the first SELECT by a SEMI or an ANTI join with the other one, over all columns."""
    kept, others = writer.table(first, width), writer.table(other, width)
    same = " AND ".join(
        f"{left} IS NOT DISTINCT FROM {right}" for left, right in zip(kept.columns, others.columns, strict=True)
    )
    return f"SELECT {', '.join(kept.columns)} FROM {kept.item} {kind} JOIN {others.item} ON {same}"


def _combined(operation: str, selects: Sequence[str]) -> str:
    """The SELECTs combined as a balanced tree: a chain would nest as deep as there are inputs."""
    level = [f"({select})" for select in selects]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [f"({pair[0]} {operation} {pair[1]})" if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0].removeprefix("(").removesuffix(")") if len(selects) > 1 else selects[0]


def _plain(combined: str) -> str:
    return f"SELECT * FROM ({combined})"


def _distinct(combined: str) -> str:
    return f"SELECT DISTINCT * FROM ({combined})"
