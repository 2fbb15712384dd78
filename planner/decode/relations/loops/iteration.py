"""Decodes `IterationRelation`: a loop.

A loop has the columns of its entering rows, or the columns that the message declares. If there are neither, the decoder
finds the columns from the body: it decodes the body with columns of unknown types, which the parts without a reference
make known, until nothing new comes out. The decoder finds the columns' nullability in the same way, because the body
can make a known column nullable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .... import ir
from ....analysis.outer_references import OuterReferences
from ....ir.types import Type
from ... import poison
from ...comparing import either_nullable
from ...decoder import Decoder, Steps
from ...enclosing_loops import OpenLoop
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...poison import is_unknown
from ...scope import Scope
from .loop_columns import agree, declared_columns

_AT_LIMIT: Final = {0: ir.AtLimit.ERROR, 1: ir.AtLimit.ERROR, 2: ir.AtLimit.RETURN}
_PASSES: Final = 100
"""The most decodings of a body: each but the last makes a column known, or nullable."""


def convert_iteration(
    decoder: Decoder, iteration: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    problems_before = len(decoder.problems)
    detail = plan_path / "detail"
    _check_name(decoder, iteration.iteration_name, detail)
    at_limit = _AT_LIMIT.get(iteration.at_limit)
    if at_limit is None:
        decoder.problems.add(detail / "at_limit", "MISSING", "at_limit is unknown: give error or return")
    if len(message.inputs) not in (1, 2):
        problem = f"a loop must have its body and at most one more input, not {len(message.inputs)} inputs"
        decoder.problems.add(plan_path / "inputs", "MISSING", problem)
        return poison.RELATION
    entering: ir.Relation | None = None
    if len(message.inputs) == 2:
        entering = yield from decoder.relation(message.inputs[1], plan_path.at("inputs", 1), outer)
    known = _known(decoder, iteration.schema, entering, plan_path)
    is_as_wide = known is not None and entering is not None and len(known) == len(entering.schema)
    settling = _Settling(decoder, iteration.iteration_name, message.inputs[0], plan_path, outer)
    settled = yield from settling.settle(known, entering if is_as_wide else None)
    if settled is None or at_limit is None or len(decoder.problems) > problems_before:
        return poison.RELATION
    _warn(decoder, settled, iteration, plan_path)
    return ir.Iterate(
        loop=settled.loop.number,
        name=settled.loop.name,
        body=settled.body,
        input=entering,
        max_rounds=iteration.max_rounds if iteration.HasField("max_rounds") else None,
        at_limit=at_limit,
        schema=settled.schema,
        plan_path=str(plan_path),
    )


def _check_name(decoder: Decoder, name: str, detail: PlanPath) -> None:
    if not name:
        decoder.problems.add(detail / "iteration_name", "MISSING", "a loop must have a name")
    elif decoder.loops.named(name) is not None:
        problem = f"an enclosing loop is also called {name!r}: give one of the two loops another name"
        decoder.problems.add(detail / "iteration_name", "DUPLICATE_NAME", problem)


# ------------------------------------------------------------------------------------------- the columns there are


def _known(decoder: Decoder, declared: bytes, entering: ir.Relation | None, plan_path: PlanPath) -> ir.Schema | None:
    """The known columns before the body is decoded."""
    schema = declared_columns(decoder, declared, plan_path / "detail" / "schema") if declared else None
    if entering is None or entering is poison.RELATION:
        return schema
    if schema is None:
        return entering.schema
    agree(decoder, schema, entering.schema, plan_path.at("inputs", 1))
    return schema


# ------------------------------------------------------------------------------------------------------ the body


@dataclass(frozen=True, slots=True, eq=False)
class _Settled:
    """A loop's body whose references have the final schema."""

    loop: OpenLoop
    body: ir.Relation
    schema: ir.Schema


@dataclass(frozen=True, slots=True, eq=False)
class _Settling:
    """Decodes a body until its schema is the schema of its references."""

    decoder: Decoder
    name: str
    number: int
    plan_path: PlanPath
    outer: Scope | None

    def settle(self, known: ir.Schema | None, entering: ir.Relation | None) -> Steps[_Settled | None]:
        """The settled body; None if there is none: once reported, or because an enclosing loop's columns are not known
        yet.
        """
        at = self.plan_path.at("inputs", 0)
        schema = self.decoder.loops.schemas.get(self.number, known)
        for _ in range(_PASSES):
            before = len(self.decoder.problems)
            loop = OpenLoop(self.decoder.loops.next_number(), self.name, schema)
            with self.decoder.loops.inside(loop):
                body = yield from self.decoder.relation(self.number, at, self.outer)
            if len(self.decoder.problems) > before:
                return None
            if body is poison.RELATION:
                break
            if schema is not None and not agree(self.decoder, schema, body.schema, at):
                return None
            following = _widened(schema, body.schema, () if entering is None else entering.schema)
            self.decoder.loops.schemas[self.number] = following
            if following == schema:
                if any(map(is_unknown, schema)) and not self.decoder.loops.guessing:
                    break
                return _Settled(loop, body, schema)
            schema = following
        if not self.decoder.loops.guessing:
            self._cannot_tell(schema)
        return None

    def _cannot_tell(self, schema: ir.Schema | None) -> None:
        unknown = [str(index) for index, type_ in enumerate(schema or ()) if is_unknown(type_)]
        what = "the columns" if not unknown else f"the type of column {unknown[0]}"
        if len(unknown) > 1:
            what = f"the types of columns {', '.join(unknown)}"
        self.decoder.problems.add(
            self.plan_path,
            "UNKNOWN_TYPES",
            f"{what} of loop {self.name!r} cannot be derived from its body: give the loop a second input (an empty "
            "virtual table is enough), or give its message a schema",
        )


def _widened(schema: ir.Schema | None, body: ir.Schema, entering: ir.Schema) -> ir.Schema:
    """The known type of each column from any of the schemas, nullable if one of them is."""
    rows = [columns for columns in (schema, body, entering) if columns]
    return tuple(_known_type(types) for types in zip(*rows, strict=True))


def _known_type(types: tuple[Type, ...]) -> Type:
    known = [type_ for type_ in types if not is_unknown(type_)]
    if not known:
        return poison.UNKNOWN
    common = known[0]
    for type_ in known[1:]:
        common = either_nullable(common, type_)
    return common


# --------------------------------------------------------------------------------------------------------- advice


def _warn(decoder: Decoder, settled: _Settled, iteration: Any, plan_path: PlanPath) -> None:
    name = iteration.iteration_name
    if not settled.loop.references:
        decoder.problems.warn(
            plan_path, f"nothing in the body of loop {name!r} refers to the loop, so the relation is not a loop"
        )
    elif not iteration.HasField("max_rounds"):
        union = _growing(settled.body, settled.loop.number)
        if union is not None:
            advice = "the loop adds rows again that it has already, so over a cycle the loop ends with an error"
            problem = f"a UNION ALL in the body of loop {name!r}, which has no limit on rounds: {advice}"
            decoder.problems.warn(plan_path, f"{problem} (the union is at {union.plan_path})")


def _growing(body: ir.Relation, loop: int) -> ir.Set | None:
    """A UNION ALL over a reference, with nothing above it that leaves out rows that are there already."""
    references = OuterReferences()
    stack = [body]
    while stack:
        relation = stack.pop()
        match relation:
            case ir.Set(operation=ir.SetOperation.UNION_ALL):
                if any(loop in references.of(child).loops for child in relation.inputs):
                    return relation
            case ir.Filter() | ir.Project() | ir.Sort():
                stack.append(relation.input)
            case ir.Join(type=ir.JoinType.INNER) | ir.Cross():
                stack.extend((relation.right, relation.left))
            case _:
                pass
    return None
