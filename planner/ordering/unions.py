"""The positions of the rows of a UNION ALL: the number of their branch, then their position in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .. import ir
from ..ir import types as t
from ..ir.building import columns, project
from .row_positions import Placed

_BRANCH = t.Integer(bits=32, nullable=False)


def union_all(relation: ir.Set, branches: Sequence[Placed], *, placed: bool) -> Placed:
    """The union with its rows' positions. Positions of one type share a column; each branch has nulls in the columns
    that it does not need.
    """
    width = len(relation.schema)
    if not placed:
        return Placed(replace(relation, inputs=tuple(branch.relation for branch in branches)), width)
    slots: list[t.Type] = []
    inputs = tuple(_branch(number, branch, slots) for number, branch in enumerate(branches))
    padded = tuple(_padded(branch, width, slots) for branch in inputs)
    return Placed(replace(relation, inputs=padded, schema=(*relation.schema, _BRANCH, *slots)), width)


def _branch(number: int, branch: Placed, slots: list[t.Type]) -> tuple[Placed, int, dict[int, ir.Field]]:
    """The slots that hold the branch's positions. A slot is added if no slot of the type is free."""
    taken: dict[int, ir.Field] = {}
    for position in branch.positions:
        wanted = t.nullable(position.type)
        free = (at for at, type_ in enumerate(slots) if type_ == wanted and at not in taken)
        at = next(free, len(slots))
        if at == len(slots):
            slots.append(wanted)
        taken[at] = position
    return branch, number, taken


def _padded(numbered: tuple[Placed, int, dict[int, ir.Field]], width: int, slots: Sequence[t.Type]) -> ir.Relation:
    branch, number, taken = numbered
    nulls = (ir.Literal(value=None, type=type_) for type_ in slots)
    positions = [taken.get(at, null) for at, null in enumerate(nulls)]
    expressions = (*columns(branch.relation.schema)[:width], ir.Literal(value=number, type=_BRANCH), *positions)
    return project(branch.relation, expressions)
