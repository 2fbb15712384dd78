"""Tests whether a relation's rows are made one by one."""

from __future__ import annotations

from collections.abc import Container

from .. import ir
from ..ir import tree
from ..ir.visit import has_subquery


def is_row_wise(root: ir.Relation, edges: Container[ir.Relation]) -> bool:
    """Tests whether each row comes from one row of a single input, in order."""
    relation = root
    while relation is root or relation not in edges:
        if not relation.traits.row_wise or any(map(has_subquery, tree.expressions(relation))):
            return False
        inputs = tree.read_by(relation)
        if len(inputs) != 1:
            return isinstance(relation, ir.Read | ir.LocalFiles)
        relation = inputs[0]
    return True
