"""Set operations over any number of inputs. Rows are the same if every column is, two nulls included.

The copies that come out of a row that is m times in the first input and n1, n2, ... times in the other inputs:

- MINUS_PRIMARY once if all of n are 0; MINUS_PRIMARY_ALL max(0, m - sum(n)); MINUS_MULTISET m unless every n > 0;
- INTERSECTION_PRIMARY once if any n > 0; INTERSECTION_MULTISET once if every n > 0; INTERSECTION_MULTISET_ALL
  min(m, n1, n2, ...);
- UNION_DISTINCT once; UNION_ALL m + sum(n), input after input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ... import ir
from ..table import gathered
from ..writer import Writer


def select_set(relation: ir.Set, selects: Sequence[str], writer: Writer) -> str:
    if len(selects) == 1 and relation.operation in (ir.SetOperation.UNION_ALL, ir.SetOperation.MINUS_PRIMARY_ALL):
        return selects[0]
    first, others = selects[0], selects[1:]
    width = max(len(relation.schema), 1)
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


def _minus_multiset(first: str, others: Sequence[str], width: int, writer: Writer) -> str:
    if not others:
        return first
    kept, everywhere = writer.table(first, width), writer.table(_combined("INTERSECT", others), width)
    same = " AND ".join(
        f"{left} IS NOT DISTINCT FROM {right}" for left, right in zip(kept.columns, everywhere.columns, strict=True)
    )
    return f"SELECT {', '.join(kept.columns)} FROM {kept.item} ANTI JOIN {everywhere.item} ON {same}"


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
