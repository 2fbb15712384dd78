"""Decodes `tidegate.v1.UserOperator`: an operator that the service's owner has registered, by its name.

The registration's functions are the owner's code. The log tells the owner about an error that they raise; the sender of
the plan gets the error's kind and sentence.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa

from ....operators.arrays.hashing import hash_kind, hashable
from ....operators.user.user import UserStream
from ....proto.errors import InvalidRequest
from ....proto.graph import Broadcast, ByKey, Executor, Partition, Spread
from ....proto.operator_registration import UserOperator
from ... import ir
from ...ir.arrow_types import arrow_schema
from ...ir.from_arrow import type_of
from .. import poison
from ..decoder import Decoder, Steps
from ..encoding.message_nodes import Message
from ..plan_path import PlanPath
from ..scope import Scope

MAX_OPTIONS: Final = 64 << 10
"""The most bytes of an operator's options."""

_WHOLE: Final = 2**53
"""The bound of whole numbers in options. Numbers of a plan's options are floats; a float below the bound without a
fraction is a whole number.
"""

_log = logging.getLogger(__name__)
T = TypeVar("T")


def convert_user_operator(
    decoder: Decoder, wanted: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    below = yield from decoder.relation(message.input, plan_path / "input", outer)
    return _operator(decoder, wanted, (below,), plan_path)


def convert_user_operator_of_several(
    decoder: Decoder, wanted: Any, message: Message, plan_path: PlanPath, outer: Scope | None
) -> Steps[ir.Relation]:
    inputs: list[ir.Relation] = []
    for at, number in enumerate(message.inputs):
        inputs.append((yield from decoder.relation(number, plan_path.at("inputs", at), outer)))
    return _operator(decoder, wanted, tuple(inputs), plan_path)


class _Wrong(Exception):
    """The reason why an operator cannot be used so."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def _operator(decoder: Decoder, wanted: Any, inputs: tuple[ir.Relation, ...], plan_path: PlanPath) -> ir.Relation:
    detail = plan_path / "detail"
    if any(child is poison.RELATION for child in inputs):
        return poison.RELATION
    operator = decoder.operators.get(wanted.name)
    if operator is None:
        known = ", ".join(sorted(decoder.operators)) or "none"
        problem = f"there is no operator {wanted.name!r} in this service; there are: {known}"
        decoder.problems.add(detail / "name", "UNKNOWN_OPERATOR", problem)
        return poison.RELATION
    try:
        use = _Use(wanted.name, operator, _options(wanted.options), inputs)
        return use.relation(str(plan_path))
    except _Wrong as wrong:
        decoder.problems.add(detail, wrong.reason, wrong.message)
        return poison.RELATION


def _options(options: Any) -> str:
    """The options as JSON: the same text for the same options, whoever wrote the plan."""
    if options.ByteSize() > MAX_OPTIONS:
        size = (
            f"the options have {options.ByteSize():,} bytes; at most {MAX_OPTIONS:,} are allowed: put data in sources"
        )
        raise _Wrong("OPTIONS_TOO_LARGE", size)
    return json.dumps(_plain(options), sort_keys=True, allow_nan=False)


def _plain(value: Any) -> Any:
    """A `Struct`, or a value in a `Struct`, as Python's values. Messages nest no deeper than protobuf reads them."""
    match value.DESCRIPTOR.name:
        case "Struct":
            return {name: _plain(member) for name, member in value.fields.items()}
        case "ListValue":
            return [_plain(element) for element in value.values]
    match value.WhichOneof("kind"):
        case "struct_value" | "list_value" as kind:
            return _plain(getattr(value, kind))
        case "number_value":
            return _number(value.number_value)
        case "string_value" | "bool_value" as kind:
            return getattr(value, kind)
        case _:
            return None


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise _Wrong("BAD_OPTIONS", f"an option is {value}: numbers must be finite")
    return int(value) if value.is_integer() and abs(value) < _WHOLE else value


def _make(make: Callable[[Mapping[str, Any]], Executor], options: str) -> Executor:
    return make(json.loads(options))


@dataclass(frozen=True, slots=True)
class _Use:
    """The use of a registered operator over inputs of a plan."""

    name: str
    operator: UserOperator
    options: str
    inputs: tuple[ir.Relation, ...]

    def relation(self, plan_path: str) -> ir.User:
        streams = self.operator.streams
        if len(self.inputs) != len(streams):
            inputs = f"operator {self.name!r} has the streams {', '.join(streams)}, and {len(self.inputs)} inputs here"
            raise _Wrong("WRONG_INPUTS", f"{inputs}: give an input for each stream, in this order")
        declared, types = self._declared([arrow_schema(child.schema) for child in self.inputs])
        return ir.User(
            inputs=self.inputs,
            name=self.name,
            version=self.operator.version,
            options=self.options,
            streams=tuple(UserStream(name=name, after=self.operator.after.get(name, ())) for name in streams),
            dealing=self._dealing(),
            make=partial(_make, self.operator.make, self.options),
            declared=declared,
            schema=types,
            plan_path=plan_path,
        )

    def _called(self, what: str, function: Callable[..., T], *arguments: object) -> T:
        try:
            return function(json.loads(self.options), *arguments)
        except Exception as error:
            _log.exception("the %s of operator %r failed", what, self.name)
            said = error.message if isinstance(error, InvalidRequest) else f"{type(error).__name__}: {error}"
            raise _Wrong("BAD_OPERATOR", f"the {what} of operator {self.name!r} failed: {said}") from error

    def _declared(self, schemas: Sequence[pa.Schema]) -> tuple[pa.Schema, ir.Schema]:
        schema = self.operator.schema
        if schema is None and len(schemas) == 1:
            return schemas[0], self.inputs[0].schema
        if schema is not None and not isinstance(schema, pa.Schema):
            schema = self._called("schema", schema, schemas)
        if not isinstance(schema, pa.Schema) or not len(schema):
            raise _Wrong("BAD_OPERATOR", f"operator {self.name!r} is registered without a schema for its rows")
        types = []
        for field in schema:
            type_ = type_of(field)
            if type_ is None:
                text = f"column {field.name!r} of operator {self.name!r} is {field.type}, which has no type in plans"
                raise _Wrong("UNSUPPORTED_TYPE", text)
            types.append(type_)
        return schema, tuple(types)

    def _dealing(self) -> tuple[ir.Dealing, ...] | None:
        if self.operator.partitions is None:
            return None
        partitions = self._called("partition", self.operator.partitions)
        dealings = tuple(
            self._dealt(name, partitions[name], child.schema)
            for name, child in zip(self.operator.streams, self.inputs, strict=True)
        )
        if all(dealing.routing is ir.Routing.BROADCAST for dealing in dealings):
            text = (
                f"operator {self.name!r} would read all rows of all streams on every channel, and every channel "
                "would give all of its"
            )
            raise _Wrong("BAD_OPERATOR", f"{text} rows: leave partition out, and the operator runs on one channel")
        self._check_keys(dealings)
        return dealings

    def _dealt(self, stream: str, partition: Partition, schema: ir.Schema) -> ir.Dealing:
        match partition:
            case Spread():
                return ir.Dealing(routing=ir.Routing.ROUND_ROBIN)
            case Broadcast():
                return ir.Dealing(routing=ir.Routing.BROADCAST)
            case ByKey(columns=columns):
                return ir.Dealing(routing=ir.Routing.HASH, keys=self._keys(stream, columns, arrow_schema(schema)))
            case _:
                text = (
                    f"stream {stream!r} of operator {self.name!r} is partitioned by a function, which is not "
                    "possible in plans"
                )
                raise _Wrong("BAD_OPERATOR", f"{text}: give columns, None or tidegate.SPREAD")

    def _keys(self, stream: str, columns: Sequence[str], schema: pa.Schema) -> tuple[int, ...]:
        for column in columns:
            if column not in schema.names:
                there = ", ".join(schema.names)
                text = f"stream {stream!r} of operator {self.name!r} is partitioned by {column!r}"
                raise _Wrong("UNKNOWN_COLUMN", f"{text}; its columns are: {there}")
            if not hashable(schema.field(column).type):
                text = f"stream {stream!r} of operator {self.name!r} is partitioned by {column!r}, whose type"
                raise _Wrong("UNSUPPORTED_TYPE", f"{text} {schema.field(column).type} cannot be a hash key")
        return tuple(schema.names.index(column) for column in columns)

    def _check_keys(self, dealing: Sequence[ir.Dealing]) -> None:
        """Refuses keys of different types: equal keys go to one channel only if they are of one type."""
        kinds = {
            tuple(hash_kind(arrow_schema(child.schema).field(key).type) for key in dealt.keys)
            for child, dealt in zip(self.inputs, dealing, strict=True)
            if dealt.routing is ir.Routing.HASH
        }
        if len(kinds) > 1:
            shown = " and ".join(sorted(", ".join(kind) for kind in kinds))
            text = (
                f"the streams of operator {self.name!r} are partitioned by keys of different types ({shown}): cast "
                "the keys to one type"
            )
            raise _Wrong("KEY_TYPES", text)
