"""Joins of rows by their times, as relations of substrait's builders and of its data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar
from typing import Final as Constant

from google.protobuf.any_pb2 import Any as AnyMessage

from ..proto.errors import InvalidRequest
from ..proto.tidegate.v1.relations_pb2 import IntervalJoin
from .named_columns import position
from .window_builders import Length, final_of, of_kind, set_spans

if TYPE_CHECKING:
    from substrait.extension_registry import ExtensionRegistry
    from substrait.plan_pb2 import Plan
    from substrait.type_pb2 import NamedStruct, Type

_TYPES: Constant = {name.removeprefix("TYPE_").lower(): number for name, number in IntervalJoin.Type.items() if number}
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
    how: str = "inner",
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
    if how not in _TYPES:
        raise InvalidRequest(f"an interval join must be one of {', '.join(_TYPES)}, not {how!r}")
    message = IntervalJoin(type=IntervalJoin.Type.Name(_TYPES[how]), final=final_of(final, lateness))
    set_spans(message, {"before": before, "after": after})
    return _joined(left, right, _pair(time), [_pair(key) for key in keys], message, _Near)


def _pair(name: str | tuple[str, str]) -> tuple[str, str]:
    return (name, name) if isinstance(name, str) else name


def _joined(
    left: Any, right: Any, time: tuple[str, str], keys: Sequence[tuple[str, str]], message: Any, detail: Any
) -> Any:
    def resolve(registry: ExtensionRegistry) -> Plan:
        from substrait.builders import plan as builders
        from substrait.type_inference import infer_plan_schema

        registry.register_extension_relation(detail)
        sides = [_unframed(side) for side in (left, right)]
        bound = [side(registry) if callable(side) else side for side in sides]
        lefts, rights = (infer_plan_schema(plan, registry=registry) for plan in bound)
        own = type(message)()
        own.CopyFrom(message)
        own.left_time, own.right_time = position(lefts, time[0]), position(rights, time[1])
        for mine, theirs in keys:
            own.keys.add(left=position(lefts, mine), right=position(rights, theirs))
        names = detail(own).names_of(tuple(lefts.names), tuple(rights.names))
        return builders.extension_multi(sides, detail(own, names))(registry)

    return of_kind(left, lambda _: resolve)


def _unframed(side: Any) -> Any:
    return side.to_plan() if hasattr(side, "to_plan") else side


@dataclass(frozen=True)
class _Near:
    """An `ExtensionMultiDetail` of substrait's builders."""

    message: IntervalJoin
    names: Sequence[str] = ()
    type_url: ClassVar[str] = f"type.googleapis.com/{IntervalJoin.DESCRIPTOR.full_name}"

    def names_of(self, left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
        """The names of the columns, from those of the inputs."""
        kind = self._kind()
        return (*(() if kind in _OF_RIGHT else left), *(() if kind in _OF_LEFT else right))

    def derive_schema(self, inputs: Sequence[Type.Struct]) -> NamedStruct:
        from substrait.type_pb2 import NamedStruct, Type

        left, right = inputs
        kind = self._kind()
        types = [] if kind in _OF_RIGHT else _typed(left.types, null=kind in ("right", "outer"))
        types += [] if kind in _OF_LEFT else _typed(right.types, null=kind in ("left", "outer"))
        names = self.names or [f"c{at}" for at in range(len(types))]
        return NamedStruct(names=names, struct=Type.Struct(types=types, nullability=Type.NULLABILITY_REQUIRED))

    def to_any(self) -> AnyMessage:
        return AnyMessage(type_url=self.type_url, value=self.message.SerializeToString())

    @classmethod
    def from_any(cls, detail: AnyMessage) -> _Near:
        return cls(IntervalJoin.FromString(detail.value))

    def _kind(self) -> str:
        return next(name for name, number in _TYPES.items() if number == self.message.type)


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
