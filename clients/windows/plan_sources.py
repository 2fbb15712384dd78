"""Watermarks for sources of a plan that another program wrote, from SQL say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..plans import Plan, plan_bytes
from ..proto.errors import InvalidRequest
from ..proto.tidegate.v1.relations_pb2 import LateRows, Watermark
from ..proto.values import PlanBytes
from .named_columns import position
from .window_builders import Length, set_spans

if TYPE_CHECKING:
    from google.protobuf.message import Message


def of_source(
    plan: Plan,
    source: str,
    time: str,
    delay: Length | None = None,
    *,
    ahead: Length | None = None,
    idle_epochs: int = 0,
    lateness: Length | None = None,
) -> PlanBytes:
    """The plan in which each read of `source` has the watermark of `windows.watermark`, and only rows that
    are on time, as `windows.on_time` says. So a continuous task keeps only those groups of `GROUP BY date_trunc('hour',
    at)` that the watermark has not passed.

    >>> import substrait.dataframe as sub
    >>> from tidegate import windows
    >>> clicks = sub.read_named_table("clicks", {"at": sub.i64, "page": sub.string})
    >>> tens = (sub.col("at") / 10).alias("ten")  # as SQL's GROUP BY at / 10
    >>> counts = clicks.with_columns(tens).group_by("ten").agg(sub.f.count().alias("clicks"))
    >>> bounded = windows.of_source(counts.to_plan(), "clicks", "at", delay=5)
    >>> print(client.explain(bounded, mode="continuous").text.count("that the watermark has not passed"))
    1
    """
    from google.protobuf import json_format
    from substrait.plan_pb2 import Plan as PlanMessage

    encoded, message = plan_bytes(plan), PlanMessage()
    if encoded.binary is not None:
        message.ParseFromString(encoded.binary)
    else:
        json_format.Parse(encoded.json or "", message)
    reads = [rel for rel in list(_relations(message)) if _reads(rel, source)]
    if not reads:
        raise InvalidRequest(f"the plan does not read {source!r} as a named table: give the name that the plan has")
    for rel in reads:
        watermark, on_time = Watermark(idle_epochs=idle_epochs), LateRows(on_time=True)
        set_spans(watermark, {"delay": delay, "ahead": ahead})
        set_spans(on_time, {"lateness": lateness})
        watermark.time = on_time.time = _position(rel.read, time)
        for detail in (watermark, on_time):
            below = type(rel)()
            below.CopyFrom(rel)
            rel.Clear()
            rel.extension_single.input.CopyFrom(below)
            rel.extension_single.detail.Pack(detail)
    return replace(encoded, binary=message.SerializeToString(), json=None)


def _relations(message: Message) -> Iterator[Any]:
    """The relations of a plan, those inside of expressions too."""
    stack = [message]
    while stack:
        part = stack.pop()
        if part.DESCRIPTOR.full_name == "substrait.Rel":
            yield part
        for field, value in part.ListFields():
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            stack.extend(value if field.is_repeated else [value])


def _reads(rel: Any, source: str) -> bool:
    return rel.WhichOneof("rel_type") == "read" and ".".join(rel.read.named_table.names) == source


def _position(read: Any, time: str) -> int:
    """The position of a column of the table among the columns of the read."""
    at = position(read.base_schema, time)
    wanted = list(range(len(read.base_schema.struct.types)))
    if read.HasField("projection"):
        wanted = [item.field for item in read.projection.select.struct_items]
    if read.common.HasField("emit"):
        wanted = [wanted[out] for out in read.common.emit.output_mapping]
    if at not in wanted:
        raise InvalidRequest(f"a read of the plan leaves the column {time!r} out: the plan must read it")
    return wanted.index(at)
