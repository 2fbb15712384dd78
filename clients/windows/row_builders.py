"""Watermarks of sources and late rows, as relations of substrait's builders and of its data frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from google.protobuf.any_pb2 import Any as AnyMessage

from ..proto.tidegate.v1.relations_pb2 import LateRows, RowCount, Watermark
from .named_columns import position
from .window_builders import Length, Resolve, extended, of_kind, scoped, set_spans

if TYPE_CHECKING:
    from substrait.extension_registry import ExtensionRegistry
    from substrait.plan_pb2 import Plan
    from substrait.type_pb2 import NamedStruct, Type


def watermark(
    events: Any,
    time: str,
    delay: Length | None = None,
    *,
    ahead: Length | None = None,
    idle_epochs: int = 0,
) -> Any:
    """The rows of a source whose watermark follows their column `time`: after each row it is the greatest time so far,
    less the `delay`. In a continuous task, final windows end by it.

    `events` is a read, or filters and column selections of one. One row moves the watermark by at most `ahead`; the
    first one only once another row is at most `ahead` earlier. After `idle_epochs` epochs without rows, the source
    holds no other one back; 0 means that it always does.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = windows.watermark(sub.read_named_table("clicks", {"at": sub.i64}), "at", 5)
    >>> per_ten = windows.tumbling(clicks, "at", 10, measures=[sub.f.count().alias("clicks")], final=True)
    >>> with tidegate.local() as client, client.create_task(per_ten.to_plan(), mode="continuous") as task:
    ...     print(task.run_epoch({"clicks": pa.table({"at": [3, 12]})}).table().num_rows)  # the watermark is 7
    ...     print(task.run_epoch({"clicks": pa.table({"at": [9, 15]})}).table().to_pylist())  # the watermark is 10
    0
    [{'window_start': 0, 'window_end': 10, 'clicks': 2, '_weight': 1}]
    """
    message = Watermark(idle_epochs=idle_epochs)
    set_spans(message, {"delay": delay, "ahead": ahead})
    return _over_rows(events, time, message)


def late_rows(
    events: Any,
    time: str,
    *,
    size: Length | None = None,
    slide: Length | None = None,
    offset: Length | None = None,
    zone: str = "",
    gap: Length | None = None,
    count: int | None = None,
    lateness: Length | None = None,
) -> Any:
    """The rows of `events` that come too late for final windows of this kind, in a continuous task. In a per-epoch task
    no row is late. `count` is the number of rows of `windows.count`. Without a size, a gap and a count, these are the
    rows that are late for final joins, and that `windows.on_time` leaves out.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = windows.watermark(sub.read_named_table("clicks", {"at": sub.i64}), "at")
    >>> late = windows.late_rows(clicks, "at", size=10)
    >>> with tidegate.local() as client, client.create_task(late.to_plan(), mode="continuous") as task:
    ...     print(task.run_epoch({"clicks": pa.table({"at": [3, 12, 9]})}).table().to_pylist())
    [{'at': 9, '_weight': 1}]
    """
    message = LateRows(zone=zone, count=None if count is None else RowCount(size=count))
    set_spans(message, {"size": size, "slide": slide, "offset": offset, "gap": gap, "lateness": lateness})
    return _over_rows(events, time, message)


def on_time(
    events: Any,
    time: str,
    *,
    size: Length | None = None,
    slide: Length | None = None,
    offset: Length | None = None,
    zone: str = "",
    gap: Length | None = None,
    lateness: Length | None = None,
) -> Any:
    """The rows of `events` that are not late, in a continuous task; in a per-epoch task all rows that have a time. With
    a `size` or a `gap`, a row is late as for final windows of this kind; without, if the watermark is after the row's
    time and the `lateness`. Aggregates and joins above it by this time keep only what the watermark has not passed.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = windows.watermark(sub.read_named_table("clicks", {"at": sub.i64}), "at")
    >>> rows = windows.on_time(clicks, "at", lateness=5)
    >>> with tidegate.local() as client, client.create_task(rows.to_plan(), mode="continuous") as task:
    ...     print(task.run_epoch({"clicks": pa.table({"at": [3, 12, 9, 6]})}).table().to_pylist())
    [{'at': 3, '_weight': 1}, {'at': 9, '_weight': 1}, {'at': 12, '_weight': 1}]
    """
    message = LateRows(zone=zone, on_time=True)
    set_spans(message, {"size": size, "slide": slide, "offset": offset, "gap": gap, "lateness": lateness})
    return _over_rows(events, time, message)


def _over_rows(events: Any, time: str, message: Any) -> Any:
    """A relation whose columns are those of its input."""
    return of_kind(events, lambda rows: _unbound_rows(rows, time, message))


def _unbound_rows(events: Any, time: str, message: Any) -> Resolve:
    def resolve(registry: ExtensionRegistry) -> Plan:
        from substrait.type_inference import infer_plan_schema

        registry.register_extension_relation(_MarkedRows)
        registry.register_extension_relation(_OnlyLateRows)
        bound = events(registry) if callable(events) else events
        detail = type(message)()
        detail.CopyFrom(message)
        detail.time = position(infer_plan_schema(bound, registry=registry), time)
        return extended(bound, detail)

    return scoped(resolve)


class _SameColumns:
    """An `ExtensionSingleDetail` of a relation whose columns are its input's."""

    type_url: ClassVar[str]

    def derive_schema(self, input_struct: Type.Struct) -> NamedStruct:
        from substrait.type_pb2 import NamedStruct

        names = [f"c{at}" for at in range(len(input_struct.types))]
        return NamedStruct(names=names, struct=input_struct)

    @classmethod
    def from_any(cls, detail: AnyMessage) -> _SameColumns:  # noqa: ARG003 - the columns do not depend on it
        return cls()


class _MarkedRows(_SameColumns):
    type_url: ClassVar[str] = f"type.googleapis.com/{Watermark.DESCRIPTOR.full_name}"


class _OnlyLateRows(_SameColumns):
    type_url: ClassVar[str] = f"type.googleapis.com/{LateRows.DESCRIPTOR.full_name}"
