"""Decodes `ProjectRel`: the input's columns and then the expressions."""

from __future__ import annotations

from ... import ir
from ...ir.building import columns, project
from .. import poison
from ..declarations.habits import SetIndex
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope, Windows
from .grouping_sets import note_columns


def convert_project(decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None) -> Steps[ir.Relation]:
    """The projection. Its window functions go to a `Window` below it."""
    if decoder.habits.set_index is SetIndex.MASK:
        note_columns(decoder, message)
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    windows = Windows(len(below.schema))
    scope = decoder.scope([below], message, outer, windows)
    expressions = yield from decoder.expressions(message.expressions, plan_path, "expressions", scope)
    if below is poison.RELATION:
        return below
    kept = columns(below.schema)
    if decoder.habits.project_replaces and message.common.WhichOneof("emit_kind") != "emit":
        kept = ()
    source = below
    if windows.calls:
        calls = tuple(windows.calls)
        schema = below.schema + tuple(call.type for call in calls)
        source = ir.Window(input=below, calls=calls, schema=schema, plan_path=str(plan_path))
    return project(source, (*kept, *expressions), str(plan_path))
