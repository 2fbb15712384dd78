"""Extension relations: relations that Substrait lacks, by the name of the message that describes each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from google.protobuf.message import DecodeError

from ... import ir
from .. import poison
from ..declarations.details import message_named
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope
from .event_time.as_of_join import convert_as_of_join
from .event_time.interval_join import convert_interval_join
from .event_time.late_rows import convert_late_rows
from .event_time.watermark import convert_watermark
from .event_time.window_aggregate import convert_window_aggregate
from .joins.index_lookup_join import convert_index_lookup_join
from .loops.iteration import convert_iteration
from .loops.iteration_reference import convert_iteration_reference
from .pack_lists import convert_pack_lists
from .reads.declared_order import convert_declared_order
from .unnest import convert_unnest
from .user_operator import convert_user_operator, convert_user_operator_of_several

ExtensionConverter: TypeAlias = "Callable[[Decoder, Any, Message, PlanPath, Scope | None], Steps[ir.Relation]]"

CONVERTERS: Final[Mapping[str, Mapping[str, ExtensionConverter]]] = {
    "extension_single": {
        "tidegate.v1.Unnest": convert_unnest,
        "tidegate.v1.PackLists": convert_pack_lists,
        "tidegate.v1.DeclaredOrder": convert_declared_order,
        "tidegate.v1.UserOperator": convert_user_operator,
        "tidegate.v1.WindowAggregate": convert_window_aggregate,
        "tidegate.v1.LateRows": convert_late_rows,
        "tidegate.v1.Watermark": convert_watermark,
    },
    "extension_multi": {
        "tidegate.v1.IndexLookupJoin": convert_index_lookup_join,
        "tidegate.v1.AsOfJoin": convert_as_of_join,
        "tidegate.v1.IntervalJoin": convert_interval_join,
        "tidegate.v1.IterationRelation": convert_iteration,
        "tidegate.v1.UserOperator": convert_user_operator_of_several,
    },
    "extension_leaf": {"tidegate.v1.IterationReferenceReadRelation": convert_iteration_reference},
}


def convert_extension_single(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    return (yield from _convert("extension_single", decoder, message, plan_path, outer))


def convert_extension_multi(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    return (yield from _convert("extension_multi", decoder, message, plan_path, outer))


def convert_extension_leaf(
    decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    return (yield from _convert("extension_leaf", decoder, message, plan_path, outer))


def _convert(
    kind: str, decoder: Decoder, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    known = CONVERTERS[kind]
    url = message.detail.type_url
    kind_of_message = message_named(url)
    name = "" if kind_of_message is None else kind_of_message.DESCRIPTOR.full_name
    if kind_of_message is None or name not in known:
        problem = f"{url or 'a detail without a type URL'} is not a known type URL; there are: {', '.join(known)}"
        decoder.problems.add(plan_path / "detail", "UNSUPPORTED_RELATION", problem)
        return poison.RELATION
    detail = kind_of_message()
    try:
        detail.ParseFromString(message.detail.value)
    except DecodeError as error:
        decoder.problems.add(plan_path / "detail", "MALFORMED", f"not a valid {name}: {error}")
        return poison.RELATION
    return (yield from known[name](decoder, detail, message, plan_path, outer))
