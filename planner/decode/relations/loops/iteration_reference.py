"""Decodes `IterationReferenceReadRelation`: the rows that came back to a loop, inside the loop's body."""

from __future__ import annotations

from typing import Any, Final

from .... import ir
from ... import poison
from ...decoder import Decoder, Steps
from ...enclosing_loops import OpenLoop
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope
from .loop_columns import agree, declared_columns

_WIDEST: Final = 10_000


def convert_iteration_reference(
    decoder: Decoder, reference: Any, _: Message, plan_path: PlanPath, __: Scope | None
) -> Steps[ir.Relation]:
    """The reference. While the loop's columns are still being found, it has as many columns as it declares, of unknown
    types.
    """
    loop = decoder.loops.named(reference.iteration_name)
    if loop is None:
        around = ", ".join(map(repr, decoder.loops.names)) or "none"
        problem = f"no enclosing loop is called {reference.iteration_name!r}; there are: {around}"
        decoder.problems.add(plan_path / "detail" / "iteration_name", "UNKNOWN_LOOP", problem)
        return poison.RELATION
    loop.references += 1
    schema = _schema(decoder, loop, reference, plan_path / "detail")
    if schema is None:
        return poison.RELATION
    return ir.Reference(loop=loop.number, name=loop.name, schema=schema, plan_path=str(plan_path))
    yield


def _schema(decoder: Decoder, loop: OpenLoop, reference: Any, plan_path: PlanPath) -> ir.Schema | None:
    length = reference.output_length
    if length > _WIDEST:
        problem = f"{length:,} columns; at most {_WIDEST:,} are allowed"
        decoder.problems.add(plan_path / "output_length", "OUT_OF_RANGE", problem)
        return None
    declared = declared_columns(decoder, reference.schema, plan_path / "schema") if reference.schema else None
    if loop.schema is None:
        return declared or ((poison.UNKNOWN,) * length if length else None)
    if length and length != len(loop.schema):
        problem = f"{length} columns, but the rows of loop {loop.name!r} have {len(loop.schema)}"
        decoder.problems.add(plan_path / "output_length", "WRONG_WIDTH", problem)
        return None
    if declared is not None and not agree(decoder, loop.schema, declared, plan_path / "schema"):
        return None
    return loop.schema
