"""Windows of time as relations of substrait's builders, and of its data frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from google.protobuf.any_pb2 import Any as AnyMessage

from ..proto.errors import InvalidRequest
from ..proto.tidegate.v1.relations_pb2 import Final, RowCount, Span, WindowAggregate
from .named_columns import position

if TYPE_CHECKING:
    from substrait.extension_registry import ExtensionRegistry
    from substrait.plan_pb2 import Plan
    from substrait.type_pb2 import NamedStruct, Type

Length: TypeAlias = timedelta | int | Span
"""A length of time: a `timedelta` for timestamps; an integer for units of an integer column, or days of a date. A
`tidegate.relations.Span` says nanoseconds.
"""


Resolve: TypeAlias = "Callable[[ExtensionRegistry], Plan]"


def tumbling(
    events: Any,
    time: str,
    size: Length,
    *,
    keys: Sequence[Any] = (),
    measures: Sequence[Any] = (),
    offset: Length | None = None,
    zone: str = "",
    final: bool = False,
    lateness: Length | None = None,
) -> Any:
    """Windows that follow each other: each row is in one window. The result has a row for each window and group of keys
    with at least one row of `events`: `window_start`, `window_end`, the keys, the measures.

    `events` is a plan of substrait's builders, or a data frame; the result is of the same kind. `time` names the time
    column. `keys` are columns by name, or expressions; `measures` are aggregate functions. Windows begin at 1970-01-01
    00:00 UTC (integers: 0), at `offset` after it, and at every `size` before and after that. Lengths are a `timedelta`
    for timestamps, an integer for units of an integer column or days of a date, or a `tidegate.relations.Span`.
    `windows.months` and `windows.days` are lengths of a calendar, for dates and timestamps. They begin at midnight in
    the time zone `zone`, an IANA name, if the timestamp has a zone.

    With `final`, a continuous task gives each window once: in the epoch in which the watermark reaches its end plus the
    `lateness`. A window's rows that come later change nothing.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = sub.read_named_table("clicks", {"at": sub.i64, "page": sub.string})
    >>> per_ten = windows.tumbling(clicks, "at", 10, keys=["page"], measures=[sub.f.count().alias("clicks")])
    >>> with tidegate.local() as client, client.create_task(per_ten.to_plan()) as task:
    ...     print(task.run_epoch({"clicks": pa.table({"at": [3, 9], "page": ["home", "home"]})}).table().to_pylist())
    [{'window_start': 0, 'window_end': 10, 'page': 'home', 'clicks': 2}]
    """
    return _windows(events, time, {"size": size, "offset": offset}, keys, measures, final_of(final, lateness), zone)


def sliding(
    events: Any,
    time: str,
    size: Length,
    slide: Length,
    *,
    keys: Sequence[Any] = (),
    measures: Sequence[Any] = (),
    offset: Length | None = None,
    zone: str = "",
    final: bool = False,
    lateness: Length | None = None,
) -> Any:
    """Windows of one size, one every `slide`: each row is in as many windows as overlap, or in none if there are gaps.

    The other arguments are those of `tumbling`. `size` need not be a multiple of `slide`.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = sub.read_named_table("clicks", {"at": sub.i64})
    >>> often = windows.sliding(clicks, "at", 10, 5, measures=[sub.f.count().alias("clicks")])
    >>> with tidegate.local() as client, client.create_task(often.sort("window_start").to_plan()) as task:
    ...     print(task.run_epoch({"clicks": pa.table({"at": [3, 9]})}).table().to_pydict())
    {'window_start': [-5, 0, 5], 'window_end': [5, 10, 15], 'clicks': [1, 2, 1]}
    """
    spans = {"size": size, "slide": slide, "offset": offset}
    return _windows(events, time, spans, keys, measures, final_of(final, lateness), zone)


def session(
    events: Any,
    time: str,
    gap: Length,
    *,
    keys: Sequence[Any] = (),
    measures: Sequence[Any] = (),
    final: bool = False,
    lateness: Length | None = None,
) -> Any:
    """Sessions: rows of the same keys, each less than `gap` after the one before it. `window_start` is the time of the
    first row, `window_end` is `gap` after the last one. The other arguments are those of `tumbling`.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = sub.read_named_table("clicks", {"at": sub.i64})
    >>> visits = windows.session(clicks, "at", 10, measures=[sub.f.count().alias("clicks")])
    >>> with tidegate.local() as client, client.create_task(visits.sort("window_start").to_plan()) as task:
    ...     print(task.run_epoch({"clicks": pa.table({"at": [3, 9, 19]})}).table().to_pydict())
    {'window_start': [3, 19], 'window_end': [19, 29], 'clicks': [2, 1]}
    """
    return _windows(events, time, {"gap": gap}, keys, measures, final_of(final, lateness))


def count(
    events: Any,
    time: str,
    size: int,
    slide: int | None = None,
    *,
    keys: Sequence[Any] = (),
    measures: Sequence[Any] = (),
    final: bool = False,
    lateness: Length | None = None,
) -> Any:
    """Windows of `size` rows of the same keys, in the order of their times. Windows begin `slide` rows apart, or `size`
    without it. `window_start` and `window_end` are the times of a window's first and last row. The last windows of a
    group of keys may have fewer rows. The other arguments are those of `tumbling`.

    Rows of equal times are in the order of the columns that measures read, from left to right.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = sub.read_named_table("clicks", {"at": sub.i64})
    >>> pairs = windows.count(clicks, "at", 2, measures=[sub.f.count().alias("clicks")])
    >>> with tidegate.local() as client, client.create_task(pairs.sort("window_start").to_plan()) as task:
    ...     print(task.run_epoch({"clicks": pa.table({"at": [9, 3, 19]})}).table().to_pydict())
    {'window_start': [3, 19], 'window_end': [9, 19], 'clicks': [2, 1]}
    """
    message = WindowAggregate(count=RowCount(size=size, slide=slide), final=final_of(final, lateness))
    return of_kind(events, lambda rows: _unbound(rows, time, message, keys, measures))


def months(count: int) -> Span:
    """So many months of a calendar, as the size, slide or offset of windows.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> sales = sub.read_named_table("sales", {"day": sub.date})
    >>> quarters = windows.tumbling(sales, "day", windows.months(3), measures=[sub.f.count().alias("sales")])
    >>> with tidegate.local() as client, client.create_task(quarters.to_plan()) as task:
    ...     day = pa.array(["2026-05-17"]).cast(pa.date32())
    ...     (quarter,) = task.run_epoch({"sales": pa.table({"day": day})}).table().to_pylist()
    ...     print(quarter["window_start"], quarter["window_end"])
    2026-04-01 2026-07-01
    """
    return Span(months=count)


def days(count: int) -> Span:
    """So many days of a calendar, from midnight to midnight, as the size, slide or offset of windows.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = sub.read_named_table("clicks", {"at": sub.precision_timestamp_tz(6)})
    >>> count = sub.f.count().alias("clicks")
    >>> daily = windows.tumbling(clicks, "at", windows.days(1), zone="Europe/Berlin", measures=[count])
    >>> with tidegate.local() as client, client.create_task(daily.to_plan()) as task:
    ...     at = pa.array(["2026-03-29T12:00:00Z"]).cast(pa.timestamp("us", "UTC"))
    ...     (day,) = task.run_epoch({"clicks": pa.table({"at": at})}).table().to_pylist()
    ...     print(day["window_end"] - day["window_start"])  # clocks are set forward on this day
    23:00:00
    """
    return Span(days=count)


def distinct(
    events: Any,
    time: str,
    size: Length,
    *,
    keys: Sequence[Any],
    offset: Length | None = None,
    zone: str = "",
    lateness: Length | None = None,
) -> Any:
    """The distinct `keys` of each window, each once: `window_start`, `window_end`, the keys. Windows follow each other
    as in `tumbling`.

    A continuous task gives them in the epoch of their first row, and forgets them once the watermark has passed the end
    of their window and the `lateness`. Rows that come later change nothing.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = windows.watermark(sub.read_named_table("clicks", {"at": sub.i64, "page": sub.string}), "at")
    >>> pages = windows.distinct(clicks, "at", 10, keys=["page"])
    >>> with tidegate.local() as client, client.create_task(pages.to_plan(), mode="continuous") as task:
    ...     for times in ([3, 4], [5, 12]):
    ...         epoch = task.run_epoch({"clicks": pa.table({"at": times, "page": ["home", "home"]})})
    ...         print(epoch.table().column("window_start").to_pylist())
    [0]
    [10]
    """
    final = Final(at_once=True)
    set_spans(final, {"lateness": lateness})
    return _windows(events, time, {"size": size, "offset": offset}, keys, (), final, zone)


def final_of(final: bool, lateness: Length | None) -> Final | None:
    """The message of what is final, if it is."""
    if not final:
        if lateness is not None:
            raise InvalidRequest(
                "lateness is the time for which final windows and joins wait for late rows: give final=True, too"
            )
        return None
    message = Final()
    set_spans(message, {"lateness": lateness})
    return message


def set_spans(message: Any, spans: Mapping[str, Length | None]) -> None:
    """Sets these lengths of a message, those that are given."""
    for name, length in spans.items():
        if length is not None:
            getattr(message, name).CopyFrom(_span(length))


def _windows(
    events: Any,
    time: str,
    spans: Mapping[str, Length | None],
    keys: Sequence[Any],
    measures: Sequence[Any],
    final: Final | None,
    zone: str = "",
) -> Any:
    message = WindowAggregate(final=final, zone=zone)
    set_spans(message, spans)
    return of_kind(events, lambda rows: _unbound(rows, time, message, keys, measures))


def of_kind(events: Any, unbound: Callable[[Any], Resolve]) -> Any:
    """A plan of the builders, or a data frame, as `events` is one."""
    return type(events)(unbound(unframed(events))) if hasattr(events, "to_plan") else unbound(events)


def unframed(events: Any) -> Any:
    """The rows of a data frame as a plan that is not bound yet. Plans that are bound apart number their functions
    apart, and nothing can number them again in the bytes of a relation's detail.
    """
    return events.to_substrait if hasattr(events, "to_plan") else events


def scoped(resolve: Resolve) -> Resolve:
    """A builder whose parts number the functions of their plan together."""

    def resolved(registry: ExtensionRegistry) -> Plan:
        from substrait.extension_registry.collector import build_scoped

        plan: Plan = build_scoped(resolve)(registry)
        return plan

    return resolved


def extended(plan: Plan, detail: Any) -> Plan:
    """The plan with an `ExtensionSingleRel` of this detail above the relation of its root."""
    changed = type(plan)()
    changed.CopyFrom(plan)
    root = changed.relations[-1].root
    below = type(root.input).FromString(root.input.SerializeToString())
    root.input.extension_single.input.CopyFrom(below)
    root.input.extension_single.detail.Pack(detail)
    return changed


def _unbound(events: Any, time: str, message: WindowAggregate, keys: Sequence[Any], measures: Sequence[Any]) -> Resolve:
    def resolve(registry: ExtensionRegistry) -> Plan:
        from substrait.builders import plan as builders
        from substrait.builders.extended_expression import column
        from substrait.plan_pb2 import Plan
        from substrait.type_inference import infer_plan_schema

        registry.register_extension_relation(_Windows)
        bound = events(registry) if callable(events) else events
        filters = [_filter(measure) for measure in measures]
        plan = builders.aggregate(
            bound,
            [column(key) if isinstance(key, str) else getattr(key, "unbound", key) for key in keys],
            [_function(measure) for measure in measures],
            filters=filters if any(filters) else None,
        )(registry)
        windows = WindowAggregate()
        windows.CopyFrom(message)
        windows.time = position(infer_plan_schema(bound, registry=registry), time)
        changed = Plan()
        changed.CopyFrom(plan)
        root = changed.relations[-1].root
        aggregate = type(root.input.aggregate).FromString(root.input.aggregate.SerializeToString())
        root.input.extension_single.input.CopyFrom(aggregate.input)
        aggregate.ClearField("input")
        windows.aggregate = aggregate.SerializeToString()
        root.input.extension_single.detail.Pack(windows)
        names = ("window_start", "window_end", *root.names)
        del root.names[:]
        root.names.extend(names)
        return changed

    return scoped(resolve)


def _function(measure: Any) -> Any:
    """A measure of the builders, from a measure or an expression of data frames."""
    return getattr(getattr(measure, "expr", measure), "unbound", measure)


def _filter(measure: Any) -> Any:
    return getattr(getattr(measure, "predicate", None), "unbound", None)


def _span(length: Length) -> Span:
    match length:
        case Span():
            return length
        case timedelta():
            return Span(nanoseconds=(length.days * 86_400 + length.seconds) * 10**9 + length.microseconds * 1_000)
        case int():
            return Span(units=length)
        case _:
            raise InvalidRequest(f"a length of time must be a timedelta, an int or a Span, not {length!r}")


@dataclass(frozen=True)
class _Windows:
    """An `ExtensionSingleDetail` of substrait's builders."""

    message: WindowAggregate
    registry: ExtensionRegistry | None = None
    type_url: ClassVar[str] = f"type.googleapis.com/{WindowAggregate.DESCRIPTOR.full_name}"

    def derive_schema(self, input_struct: Type.Struct) -> NamedStruct:
        from substrait.algebra_pb2 import AggregateRel, Rel
        from substrait.type_inference import infer_rel_schema
        from substrait.type_pb2 import NamedStruct, Type

        aggregate = AggregateRel.FromString(self.message.aggregate)
        aggregate.input.read.base_schema.struct.CopyFrom(input_struct)
        aggregate.input.read.named_table.names.append("input")
        computed = infer_rel_schema(Rel(aggregate=aggregate), registry=self.registry)
        bound = _bound_type(input_struct.types[self.message.time])
        types = [bound, bound, *computed.types]
        return NamedStruct(
            names=[f"c{at}" for at in range(len(types))],
            struct=Type.Struct(types=types, nullability=Type.NULLABILITY_REQUIRED),
        )

    @classmethod
    def from_any(cls, detail: AnyMessage) -> _Windows:
        return cls(WindowAggregate.FromString(detail.value))


def _bound_type(time: Type) -> Type:
    """The type of a window's bounds: the time column's, never null; i64 for any integer."""
    from substrait.type_pb2 import Type

    kind = time.WhichOneof("kind")
    bound = Type()
    if kind in ("i8", "i16", "i32", "i64", "user_defined"):
        bound.i64.nullability = Type.NULLABILITY_REQUIRED
        return bound
    bound.CopyFrom(time)
    getattr(bound, str(kind)).nullability = Type.NULLABILITY_REQUIRED
    return bound
