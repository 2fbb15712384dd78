"""Parcels: the rows that Spark moves from stage to stage. A parcel is a block's slice for one channel, or a message.

An exchange's parcels are read in the order of (exchange, first, second). If readers take the producers' blocks in turn,
`first` is the block's number and `second` its producer's. If readers take each producer's rows separately, `first` is
the producer's number and `second` the block's. A message to the readers of a stage's rows comes before all of them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ....planner.ir import Routing
from ....planner.physical.pipelines import Exchange
from ....proto.arrow.validation import validated
from ...runtime.batch_store import has_dictionary


class Kind(enum.IntEnum):
    """The kinds of parcels.

    - ROWS: a block's slice
    - FILE: the name of a file with all of a producer's blocks
    - ERROR: the producer's rows end here, with an error
    - REPORT: counts of the channels that made the rows
    - RESULT: the place of a channel's result
    - SAMPLE: keys of a producer's sorted rows
    """

    ROWS = 0
    FILE = 1
    ERROR = 2
    REPORT = 3
    RESULT = 4
    SAMPLE = 5


COLUMNS: Final = "channel int, exchange int, first long, second long, kind int, payload binary"
SCHEMA: Final = pa.schema(
    [
        ("channel", pa.int32()),
        ("exchange", pa.int32()),
        ("first", pa.int64()),
        ("second", pa.int64()),
        ("kind", pa.int32()),
        ("payload", pa.binary()),
    ]
)
BEFORE_ALL: Final = -1
BEFORE_EXCHANGES: Final = -(1 << 31)
"""The exchange of a parcel without contents, which tells a channel its number."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A payload for a channel, with its exchange and its position there."""

    channel: int
    exchange: int
    first: int
    second: int
    kind: Kind
    payload: bytes


def batch_of(parcels: Sequence[Parcel]) -> pa.RecordBatch:
    columns = zip(*((p.channel, p.exchange, p.first, p.second, p.kind, p.payload) for p in parcels), strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


BATCH_BYTES: Final = 16 << 20


def batches_of(parcels: Sequence[Parcel]) -> Iterator[pa.RecordBatch]:
    """The parcels in batches that are not much larger than a parcel may be."""
    held: list[Parcel] = []
    size = 0
    for parcel in parcels:
        held.append(parcel)
        size += len(parcel.payload)
        if size >= BATCH_BYTES:
            yield batch_of(held)
            held, size = [], 0
    if held:
        yield batch_of(held)


def parcels_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Parcel]:
    """The parcels in these batches.

    Payloads are copied one by one: buffers are then aligned, and no batch is kept for a row.
    """
    for batch in batches:
        channel, exchange, first, second, kind = (batch.column(at).to_pylist() for at in range(5))
        payload = batch.column(5)
        for at in range(batch.num_rows):
            yield Parcel(channel[at], exchange[at], first[at], second[at], Kind(kind[at]), payload[at].as_py())


def by_producer(exchange: Exchange) -> bool:
    """True if a consumer reads each producer's rows separately, or one producer's after another's."""
    return bool(exchange.order) or exchange.routing is Routing.GATHER


def encoded(rows: pa.RecordBatch) -> bytes:
    """A batch without its schema. Dictionaries go with the schema, so a batch with dictionaries includes it."""
    if not has_dictionary(rows.schema):
        return bytes(memoryview(rows.serialize()))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return bytes(memoryview(sink.getvalue()))


def decoded(payload: bytes, schema: pa.Schema) -> pa.RecordBatch:
    if not has_dictionary(schema):
        return validated(pa.ipc.read_record_batch(pa.py_buffer(payload), schema))
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        return validated(reader.read_next_batch())
