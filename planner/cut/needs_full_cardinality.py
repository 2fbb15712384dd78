"""Finds the reads of a statement that DuckDB should weigh by their full number of rows.

DuckDB orders joins by estimates, and expects any condition on a scan to keep a fifth of the rows. A read of a part of
its files has such a condition, although a share or a range of keys is more than a fifth. A read with a condition of its
own is taken for a fifth anyway.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from .. import ir
from ..ir import tree
from ..ir.boolean import conjuncts
from ..ir.visit import is_column, parts, subqueries_of


def reads_of_full_cardinality(
    root: ir.Relation, shared: Sequence[ir.Relation], ends: Container[ir.Relation]
) -> set[ir.Relation]:
    """The reads below `root` that have no condition of their own, if there is a join. `ends` are relations that are
    computed elsewhere.
    """
    wanted: set[ir.Relation] = set()
    narrowed: set[ir.Relation] = set()
    joins = False
    for relation, has_condition in _below(root, shared, ends):
        if isinstance(relation, ir.Read | ir.LocalFiles):
            (narrowed if has_condition else wanted).add(relation)
        joins |= relation.traits.columns == "sides"
    return wanted - narrowed if joins else set()


def _below(
    root: ir.Relation, shared: Sequence[ir.Relation], ends: Container[ir.Relation]
) -> Iterator[tuple[ir.Relation, bool]]:
    """Each relation, and whether a condition on one of its columns stands right above it, among filters and
    projections.
    """
    stack = [(root, False)]
    used: set[int] = set()
    while stack:
        relation, has_condition = stack.pop()
        yield relation, has_condition
        if isinstance(relation, ir.Shared):
            if relation.ordinal not in used:
                used.add(relation.ordinal)
                stack.append((shared[relation.ordinal], False))
            continue
        inner = (subquery.relation for subquery in subqueries_of(relation))
        has_condition = has_condition and isinstance(relation, ir.Filter | ir.Project)
        if isinstance(relation, ir.Filter) and not has_condition:
            has_condition = any(map(_of_one_column, conjuncts(relation.condition)))
        stack.extend((child, has_condition) for child in tree.inputs(relation) if child not in ends)
        stack.extend((child, False) for child in inner if child not in ends)


def _of_one_column(term: ir.Expression) -> bool:
    """Tests whether a scan checks the term: DuckDB compares columns with each other only after the scan."""
    columns = {part.index for part in parts(term) if is_column(part)}
    return len(columns) == 1 and not any(isinstance(part, ir.Subquery) for part in parts(term))
