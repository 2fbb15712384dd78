"""The positions of a join's rows: of both sides, or of the side whose rows it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..ir import tree
from ..ir import types as t
from ..rewrite.prune_columns import output_sides
from .row_positions import Placed, rearranged


def kept_sides(relation: ir.Join | ir.LateralJoin | ir.Cross) -> tuple[ir.Relation, ...]:
    """The sides whose positions identify the join's rows. A single join has at most one match for each row."""
    if isinstance(relation, ir.Cross):
        return (relation.left, relation.right)
    match relation.type:
        case ir.JoinType.LEFT_SINGLE:
            return (relation.left,)
        case ir.JoinType.RIGHT_SINGLE:
            return (relation.right,)
        case _:
            return output_sides(relation)


def is_full(relation: ir.Join | ir.LateralJoin | ir.Cross) -> bool:
    """Tests whether rows of either side may come without a match."""
    return not isinstance(relation, ir.Cross) and relation.type is ir.JoinType.OUTER


def joined(old: ir.Join | ir.LateralJoin | ir.Cross, moving: ir.Relation, left: Placed, right: Placed) -> Placed:
    """`moving` over the new sides, with its own columns first. `moving` is `old` with its condition over the
    new sides.
    """
    out = output_sides(old)
    sides: list[Placed] = [placed for side, placed in ((old.left, left), (old.right, right)) if side in out]
    schema: list[t.Type] = []
    own: list[int] = []
    positions: list[int] = []
    types = iter(old.schema)
    for side in sides:
        start = len(schema)
        own.extend(range(start, start + side.width))
        schema.extend(next(types) for _ in range(side.width))
        positions.extend(range(start + side.width, start + side.width + len(side.positions)))
        schema.extend(t.nullable(position.type) for position in side.positions)
    mark = [*types]
    own.extend(range(len(schema), len(schema) + len(mark)))
    schema.extend(mark)
    over = replace(tree.with_inputs(moving, (left.relation, right.relation)), schema=tuple(schema))
    return Placed(rearranged(over, _checked(own, positions, schema)), len(old.schema))


def _checked(own: Sequence[int], positions: Sequence[int], schema: Sequence[t.Type]) -> tuple[int, ...]:
    assert len(own) + len(positions) == len(schema)
    return (*own, *positions)
