"""Joins of rows by their times, as relations of substrait's builders and of its data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias
from typing import Final as Constant

from google.protobuf.any_pb2 import Any as AnyMessage

from ..proto.errors import InvalidRequest
from ..proto.tidegate.v1.relations_pb2 import AsOfJoin, IntervalJoin
from .named_columns import position
from .window_builders import Length, final_of, of_kind, scoped, set_spans, unframed

if TYPE_CHECKING:
    from substrait.extension_registry import ExtensionRegistry
    from substrait.plan_pb2 import Plan
    from substrait.type_pb2 import NamedStruct, Type

IntervalJoinType: TypeAlias = Literal[
    "inner", "left", "right", "outer", "left_semi", "left_anti", "right_semi", "right_anti"
]
_OF_LEFT: Constant = ("left_semi", "left_anti")
_OF_RIGHT: Constant = ("right_semi", "right_anti")


def interval_join(
    left: Any,
    right: Any,
    time: str | tuple[str, str],
    *,
    before: Length | None = None,
    after: Length | None = None,
    keys: Sequence[str | tuple[str, str]] = (),
    how: IntervalJoinType = "inner",
    final: bool = False,
    lateness: Length | None = None,
) -> Any:
    """The pairs of rows of `left` and `right` with equal keys whose times are near each other: the right row's time is
    from `before` before the left row's to `after` after it, both included. Rows without a time are left out.

    `left` and `right` are plans of substrait's builders, or data frames; the result is of the left one's kind. `time`
    names the time column, or the left and the right one. So do `keys`, which must not be null to be equal. `before` and
    `after` are lengths as in `tumbling`, of any sign; without them times have to be equal. `how` is inner, left,
    right, outer, left_semi, left_anti, right_semi or right_anti.

    With `final`, a continuous task gives a pair when both of its rows have come, and a row without a match, or of a
    semi join, once: when the watermark has passed the last possible match and the `lateness`. Rows that come later
    change nothing. The task keeps the rows that can still match.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> orders = sub.read_named_table("orders", {"at": sub.i64, "order": sub.string})
    >>> paid = sub.read_named_table("paid", {"at": sub.i64, "order": sub.string})
    >>> in_time = windows.interval_join(orders, paid, "at", after=10, keys=["order"])
    >>> rows = {"orders": pa.table({"at": [1, 2], "order": ["a", "b"]})}
    >>> rows["paid"] = pa.table({"at": [11, 13], "order": ["a", "b"]})
    >>> with tidegate.local() as client, client.create_task(in_time.to_plan()) as task:
    ...     print(task.run_epoch(rows).table().num_rows)
    1
    """
    message = IntervalJoin(type=_type(IntervalJoin.Type, how), final=final_of(final, lateness))
    set_spans(message, {"before": before, "after": after})
    return _joined(left, right, _pair(time), [_pair(key) for key in keys], message, _Near)


def as_of_join(
    left: Any,
    right: Any,
    time: str | tuple[str, str],
    *,
    keys: Sequence[str | tuple[str, str]] = (),
    tolerance: Length | None = None,
    how: Literal["left", "inner"] = "left",
    final: bool = False,
    lateness: Length | None = None,
) -> Any:
    """Each row of `left` with the latest row of `right` that has its keys and is not later than it, and at most
    `tolerance` earlier. Of several such rows of one time it is the last one in the order of all columns. `how` is left
    or inner: rows without a match come with nulls, or not at all. The other arguments are those of `interval_join`.

    With `final`, a continuous task gives each row of `left` once, when the watermark of both sources has passed its
    time and the `lateness`. The task keeps the latest row of `right` of each key.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> orders = sub.read_named_table("orders", {"at": sub.i64, "fruit": sub.string})
    >>> prices = sub.read_named_table("prices", {"since": sub.i64, "fruit": sub.string, "price": sub.i64})
    >>> priced = windows.as_of_join(orders, prices, ("at", "since"), keys=["fruit"])
    >>> rows = {"orders": pa.table({"at": [5], "fruit": ["fig"]})}
    >>> rows["prices"] = pa.table({"since": [1, 4, 6], "fruit": ["fig"] * 3, "price": [10, 20, 30]})
    >>> with tidegate.local() as client, client.create_task(priced.to_plan()) as task:
    ...     print(task.run_epoch(rows).table().column("price").to_pylist())
    [20]
    """
    message = AsOfJoin(type=_type(AsOfJoin.Type, how), final=final_of(final, lateness))
    set_spans(message, {"tolerance": tolerance})
    return _joined(left, right, _pair(time), [_pair(key) for key in keys], message, _AsOf)


def _type(types: Any, how: str) -> Any:
    known = {name.removeprefix("TYPE_").lower(): name for name, number in types.items() if number}
    if how not in known:
        raise InvalidRequest(f"the join must be one of {', '.join(known)}, not {how!r}")
    return known[how]


def _pair(name: str | tuple[str, str]) -> tuple[str, str]:
    return (name, name) if isinstance(name, str) else name


def _joined(
    left: Any, right: Any, time: tuple[str, str], keys: Sequence[tuple[str, str]], message: Any, detail: Any
) -> Any:
    def resolve(registry: ExtensionRegistry) -> Plan:
        from substrait.builders import plan as builders
        from substrait.type_inference import infer_plan_schema

        registry.register_extension_relation(detail)
        sides = [unframed(side) for side in (left, right)]
        bound = [side(registry) if callable(side) else side for side in sides]
        lefts, rights = (infer_plan_schema(plan, registry=registry) for plan in bound)
        own = type(message)()
        own.CopyFrom(message)
        own.left_time, own.right_time = position(lefts, time[0]), position(rights, time[1])
        for mine, theirs in keys:
            own.keys.add(left=position(lefts, mine), right=position(rights, theirs))
        names = detail(own).names_of(tuple(lefts.names), tuple(rights.names))
        return builders.extension_multi(sides, detail(own, names))(registry)

    return of_kind(left, lambda _: scoped(resolve))


@dataclass(frozen=True)
class _OfTwo:
    """An `ExtensionMultiDetail` of substrait's builders."""

    message: Any
    names: Sequence[str] = ()
    kind: ClassVar[Any]
    type_url: ClassVar[str]

    def names_of(self, left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
        """The names of the columns, from those of the inputs."""
        how = self._how()
        return (*(() if how in _OF_RIGHT else left), *(() if how in _OF_LEFT else right))

    def derive_schema(self, inputs: Sequence[Type.Struct]) -> NamedStruct:
        from substrait.type_pb2 import NamedStruct, Type

        left, right = inputs
        how = self._how()
        types = [] if how in _OF_RIGHT else _typed(left.types, null=how in ("right", "outer"))
        types += [] if how in _OF_LEFT else _typed(right.types, null=how in ("left", "outer"))
        names = self.names or [f"c{at}" for at in range(len(types))]
        return NamedStruct(names=names, struct=Type.Struct(types=types, nullability=Type.NULLABILITY_REQUIRED))

    def to_any(self) -> AnyMessage:
        return AnyMessage(type_url=self.type_url, value=self.message.SerializeToString())

    @classmethod
    def from_any(cls, detail: AnyMessage) -> _OfTwo:
        return cls(cls.kind.FromString(detail.value))

    def _how(self) -> str:
        return str(self.kind.Type.Name(self.message.type)).removeprefix("TYPE_").lower()


class _Near(_OfTwo):
    kind = IntervalJoin
    type_url = f"type.googleapis.com/{IntervalJoin.DESCRIPTOR.full_name}"


class _AsOf(_OfTwo):
    kind = AsOfJoin
    type_url = f"type.googleapis.com/{AsOfJoin.DESCRIPTOR.full_name}"


def _typed(types: Sequence[Type], *, null: bool) -> list[Type]:
    """The types, nullable if the columns may be `null`."""
    from substrait.type_pb2 import Type

    typed = []
    for type_ in types:
        own = Type()
        own.CopyFrom(type_)
        if null:
            getattr(own, str(own.WhichOneof("kind"))).nullability = Type.NULLABILITY_NULLABLE
        typed.append(own)
    return typed
