"""Filter: rows for which the condition is true, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ... import ir
from ...ir.boolean import is_and, terms
from ..table import Table, select_list
from ..writer import Writer

_SEPARATE: Final = 64
"""The most separate terms of a filter. DuckDB compares every pair of terms (2,000 terms: 9 s), so the terms beyond this
many are one term.
"""


def select_filter(relation: ir.Filter, table: Table, writer: Writer) -> str:
    condition = _condition(relation.condition, writer)
    return f"SELECT {select_list(table.columns)} FROM {table.item} WHERE {condition}"


def _condition(condition: ir.Expression, writer: Writer) -> str:
    if not is_and(condition):
        return writer.expression(condition)
    conjuncts = terms(condition)
    if len(conjuncts) <= _SEPARATE:
        return writer.expression(condition)
    separate = [writer.expression(term) for term in conjuncts[:_SEPARATE]]
    rest = _balanced([writer.expression(term) for term in conjuncts[_SEPARATE:]])
    return f"{' AND '.join(f'({term})' for term in separate)} AND coalesce({rest}, false)"


def _balanced(texts: Sequence[str]) -> str:
    level = [f"({text})" for text in texts]
    while len(level) > 1:
        pairs = [f"({' AND '.join(level[at : at + 2])})" for at in range(0, len(level), 2)]
        level = pairs
    return level[0]
