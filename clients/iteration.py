"""Loops in plans made with substrait's builders (`substrait.builders.plan`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from google.protobuf.any_pb2 import Any as AnyMessage

from .proto.errors import InvalidRequest
from .proto.tidegate.v1.relations_pb2 import IterationReferenceReadRelation, IterationRelation

if TYPE_CHECKING:
    from substrait.builders.plan import PlanOrUnbound, UnboundPlan
    from substrait.extension_registry import ExtensionRegistry
    from substrait.type_pb2 import NamedStruct, Type

_AT_LIMIT: Final = {"error": IterationRelation.AT_LIMIT_ERROR, "return": IterationRelation.AT_LIMIT_RETURN}


def iterate(
    name: str,
    seed: PlanOrUnbound | None,
    body: Callable[[UnboundPlan], PlanOrUnbound],
    *,
    distinct: bool = False,
    schema: NamedStruct | None = None,
    max_rounds: int | None = None,
    at_limit: Literal["error", "return"] = "error",
) -> UnboundPlan:
    """A loop: the rows of `seed`, and of `body` over the rows that came back, until there is nothing new.

    `body` is a function. Its argument is the reference, a plan that reads the rows that came back; it returns the
    loop's body. The body may use the reference any number of times, and inside of further loops. Rows are counted: with
    X(0) = nothing and X(k+1) = seed + body(X(k)), the loop is the X that no longer changes. With `distinct` the body is
    the distinct rows of `seed` and of the plan that `body` returns, and nothing enters besides: that is SQL's `seed
    UNION body`.

    Without a `seed`, `schema` is the schema of the rows that go round. With `max_rounds`, the loop fails if one more
    round would change something; with `at_limit="return"` it gives the rows that it has by then.

    >>> from substrait.builders import plan as p
    >>> from substrait.builders.extended_expression import column, literal, scalar_function
    >>> from substrait.builders.type import i64
    >>> from substrait.extension_registry import ExtensionRegistry
    >>> from tidegate.plans import iterate
    >>> urn, n = "extension:io.substrait:functions", column(0)
    >>> is_small = scalar_function(f"{urn}_comparison", "lt", expressions=[n, literal(12, i64())])
    >>> next_one = scalar_function(f"{urn}_arithmetic", "add", expressions=[n, literal(1, i64())])
    >>> body = lambda back: p.select(p.filter(back, is_small), [next_one])
    >>> loop = iterate("to_12", samples_plan, body, distinct=True)
    >>> to_12 = loop(ExtensionRegistry(load_default_extensions=True))
    >>> client.query(to_12, {"samples": samples}).column(0).to_pylist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    """
    if at_limit not in _AT_LIMIT:
        raise InvalidRequest(f"at_limit must be one of {', '.join(_AT_LIMIT)}, not {at_limit!r}")
    if seed is None and schema is None:
        raise InvalidRequest(f"loop {name!r} has no seed: give the schema of the rows that go round in the loop")

    def resolve(registry: ExtensionRegistry) -> Any:
        from substrait.algebra_pb2 import SetRel
        from substrait.builders import plan as builders

        for detail in (_Iteration, _Reference):
            registry.register_extension_relation(detail)
        columns = _columns(seed, registry) if schema is None else schema
        inner = body(builders.extension_leaf(_reference(name, columns)))
        if distinct and seed is not None:
            inner = builders.set([seed, inner], SetRel.SET_OP_UNION_DISTINCT)
        message = IterationRelation(iteration_name=name, max_rounds=max_rounds, at_limit=_AT_LIMIT[at_limit])
        if seed is None:
            message.schema = _row(columns.struct)
        inputs = [inner] if seed is None or distinct else [inner, seed]
        relation = builders.extension_multi(inputs, _Iteration(message, tuple(columns.names)))
        return relation(registry)

    return resolve


def _columns(plan: Any, registry: ExtensionRegistry) -> NamedStruct:
    from substrait.type_inference import infer_plan_schema

    return infer_plan_schema(plan(registry) if callable(plan) else plan, registry=registry)


def _row(struct: Type.Struct) -> bytes:
    from substrait.type_pb2 import Type

    return bytes(Type(struct=struct).SerializeToString())


def _reference(name: str, columns: NamedStruct) -> _Reference:
    length = len(columns.struct.types)
    message = IterationReferenceReadRelation(iteration_name=name, output_length=length, schema=_row(columns.struct))
    return _Reference(message, tuple(columns.names))


def _named(names: Iterable[str], struct: Type.Struct) -> NamedStruct:
    from substrait.type_pb2 import NamedStruct

    return NamedStruct(names=names or [f"c{at}" for at in range(len(struct.types))], struct=struct)


@dataclass(frozen=True)
class _Iteration:
    """An `ExtensionMultiDetail` of substrait's builders."""

    message: IterationRelation
    names: Sequence[str] = ()
    type_url: ClassVar[str] = f"type.googleapis.com/{IterationRelation.DESCRIPTOR.full_name}"

    def derive_schema(self, inputs: Sequence[Type.Struct]) -> NamedStruct:
        return _named(self.names, inputs[0])

    def to_any(self) -> AnyMessage:
        return AnyMessage(type_url=self.type_url, value=self.message.SerializeToString())

    @classmethod
    def from_any(cls, detail: AnyMessage) -> _Iteration:
        return cls(IterationRelation.FromString(detail.value))


@dataclass(frozen=True)
class _Reference:
    """An `ExtensionLeafDetail` of substrait's builders."""

    message: IterationReferenceReadRelation
    names: Sequence[str] = ()
    type_url: ClassVar[str] = f"type.googleapis.com/{IterationReferenceReadRelation.DESCRIPTOR.full_name}"

    def derive_schema(self) -> NamedStruct:
        from substrait.type_pb2 import Type

        return _named(self.names, Type.FromString(self.message.schema).struct)

    def to_any(self) -> AnyMessage:
        return AnyMessage(type_url=self.type_url, value=self.message.SerializeToString())

    @classmethod
    def from_any(cls, detail: AnyMessage) -> _Reference:
        return cls(IterationReferenceReadRelation.FromString(detail.value))
