"""Tests whether rows are made one by one: by a relation, and by all relations down to the edges of its fragment."""

from __future__ import annotations

from collections.abc import Container

from .. import ir
from ..ir import tree
from ..ir.visit import subqueries_of


def keeps_rows(relation: ir.Relation) -> bool:
    """Tests whether the relation itself makes each row of one row of an input, in order. DuckDB joins for a subquery,
    and joined rows have another order.
    """
    return relation.traits.row_wise and not subqueries_of(relation)


def is_row_wise(root: ir.Relation, edges: Container[ir.Relation]) -> bool:
    """Tests whether each row comes from one row of a single input, in order."""
    relation = root
    while relation is root or relation not in edges:
        if not keeps_rows(relation):
            return False
        inputs = tree.read_by(relation)
        if len(inputs) != 1:
            return isinstance(relation, ir.Read | ir.LocalFiles)
        relation = inputs[0]
    return True
