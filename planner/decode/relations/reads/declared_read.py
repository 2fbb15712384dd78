"""Facts that a plan declares for a source, at its read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .... import ir
from ....ir import tree
from ....ir.visit import is_column


def with_declared(
    relation: ir.Relation,
    columns: Sequence[int],
    declared: Callable[[ir.Read | ir.LocalFiles, Sequence[int]], ir.Read | ir.LocalFiles],
) -> ir.Relation | None:
    """The relation over its read with what is `declared` for these columns. The read lies under filters and
    projections that select the columns; None if there is no such read.
    """
    above: list[ir.Filter | ir.Project] = []
    while isinstance(relation, ir.Filter | ir.Project):
        above.append(relation)
        if isinstance(relation, ir.Project):
            selected = [relation.expressions[column] for column in columns]
            if not all(map(is_column, selected)):
                return None
            columns = [column.index for column in selected if is_column(column)]
        relation = relation.input
    if not isinstance(relation, ir.Read | ir.LocalFiles):
        return None
    rebuilt: ir.Relation = declared(relation, columns)
    for parent in reversed(above):
        rebuilt = tree.with_inputs(parent, (rebuilt,))
    return rebuilt
