"""The relations of a recursion, divided into those that see other rows in each round and those that see the same."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace

from .. import ir
from ..ir import tree
from ..ir.visit import rebuilt
from ..ir.walk import unroll
from .outer_references import OuterReferences


def repeated(step: ir.Relation) -> Iterator[ir.Relation]:
    """The relations of a recursion's step that see other rows in each round, from the step down to its reference."""
    references = OuterReferences()
    relation: ir.Relation | None = step
    while relation is not None:
        yield relation
        relation = next((child for child in tree.inputs(relation) if references.of(child).loops), None)


def fixed(step: ir.Relation) -> Iterator[ir.Relation]:
    """The largest relations inside a recursion's step that see the same rows in each round."""
    path = list(repeated(step))
    on_it = set(path)
    for relation in path:
        yield from (child for child in tree.inputs(relation) if child not in on_it)


def steady(recursion: ir.Recursion) -> tuple[ir.Relation, ...]:
    """All relations that a recursion reads beside its reference, each once."""
    inside = (relation for step in recursion.steps for relation in fixed(step))
    entering = () if recursion.input is None else (recursion.input,)
    return tuple(dict.fromkeys((*recursion.base, *inside, *entering)))


def with_fixed(recursion: ir.Recursion, new: Mapping[ir.Relation, ir.Relation]) -> ir.Recursion:
    """The recursion with the relations of `steady` replaced. `new` is by the old relation."""

    def step(relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        if relation in new:
            return new[relation]
        return (yield from rebuilt(relation))

    entering = recursion.input
    return replace(
        recursion,
        base=tuple(new[relation] for relation in recursion.base),
        steps=tuple(unroll(step, part) for part in recursion.steps),
        input=None if entering is None else new[entering],
    )
