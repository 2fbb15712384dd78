"""Cuts sorted rows into ranges, one for each consumer of an exchange.

Where the ranges end is known only when all producers have sorted their rows. So a producer sends its blocks to the task
of its own number among the tasks that cut, and a sample of its keys to all of them. All these tasks find the same ends
in the same samples, cut their producers' blocks there, and send the parts on. Rows with equal keys are in one range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pyarrow as pa

from ....operators.arrays.ordering import Key, Ordering
from ....operators.core.batches import batch_of as batch_of_columns
from ....operators.core.wide_rows import concatenated, taken
from ....planner.physical.pipelines import Exchange
from .parcels import BEFORE_ALL, Kind, Parcel, batch_of, decoded, encoded, parcels_in

SAMPLED: Final = 128
"""The most rows of a producer's sample, and twice as many while it is taken."""
_STEP: Final = 16
_WEIGHT: Final = "rows"


class Sample:
    """Every so many rows one of a producer's rows, as far as its keys go, and the number of rows that it stands for."""

    def __init__(self, exchange: Exchange) -> None:
        self._columns = [order.column for order in exchange.order]
        self._schema = _keys_of(exchange)
        self._rows: list[pa.RecordBatch] = []
        self._step = _STEP
        self._next = _STEP - 1

    def add(self, block: pa.RecordBatch) -> None:
        chosen = range(self._next, block.num_rows, self._step)
        self._next = (chosen[-1] + self._step if chosen else self._next) - block.num_rows
        if chosen:
            keys = batch_of_columns(
                [block.column(column) for column in self._columns], block.num_rows, _without_weight(self._schema)
            )
            self._rows.append(taken(keys, pa.array(chosen, pa.int64())))
        while sum(rows.num_rows for rows in self._rows) > 2 * SAMPLED:
            self._thin()

    def _thin(self) -> None:
        """Leave every second row out."""
        rows = concatenated(self._rows)
        if rows.num_rows % 2 == 0:
            self._next += self._step
        self._rows = [taken(rows, pa.array(range(1, rows.num_rows, 2), pa.int64()))]
        self._step *= 2

    def batch(self) -> pa.RecordBatch:
        rows = concatenated(self._rows) if self._rows else None
        columns = [] if rows is None else rows.columns
        count = 0 if rows is None else rows.num_rows
        weights = pa.array([self._step] * count, pa.int64())
        empty = [pa.nulls(0, field.type) for field in _without_weight(self._schema)]
        return batch_of_columns([*(columns or empty), weights], count, self._schema)


def _keys_of(exchange: Exchange) -> pa.Schema:
    """The columns of a sample, in the order in which they are compared."""
    fields = [exchange.schema.field(order.column) for order in exchange.order]
    keys = [field.with_name(f"k{at}").with_nullable(True) for at, field in enumerate(fields)]
    return pa.schema([*keys, pa.field(_WEIGHT, pa.int64())])


def _without_weight(schema: pa.Schema) -> pa.Schema:
    return pa.schema(list(schema)[:-1])


def ends_of(samples: Iterable[pa.RecordBatch], exchange: Exchange) -> list[Key]:
    """The last keys of the ranges of an exchange, of all but the last range. Ranges have about as many rows each."""
    ordering = Ordering([replace(order, column=at) for at, order in enumerate(exchange.order)])
    weighted_keys: list[tuple[Key, int]] = []
    for sample in samples:
        keys, weights = ordering.keys(sample), sample.column(_WEIGHT).to_pylist()
        weighted_keys += [(keys.at(row), weight) for row, weight in enumerate(weights)]
    weighted_keys.sort(key=lambda row: row[0])
    total = sum(weight for _, weight in weighted_keys)
    ends: list[Key] = []
    seen = 0
    for key, weight in weighted_keys:
        seen += weight
        while len(ends) < exchange.consumers - 1 and seen * exchange.consumers >= total * (len(ends) + 1):
            ends.append(key)
    return ends


def cut(exchange: Exchange, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The parcels of a producer's rows for the consumers of the exchange. Samples come before rows."""
    samples: list[pa.RecordBatch] = []
    reports: list[Parcel] = []
    ends: list[Key] | None = None
    channel = 0
    for parcel in parcels_in(batches):
        channel = parcel.channel
        match parcel.kind:
            case Kind.SAMPLE:
                samples.append(decoded(parcel.payload, _keys_of(exchange)))
            case Kind.REPORT:
                reports.append(parcel)
            case Kind.ERROR:
                yield batch_of([replace(parcel, channel=consumer) for consumer in range(exchange.consumers)])
            case _:
                ends = ends_of(samples, exchange) if ends is None else ends
                yield batch_of(list(_parts(parcel, exchange, ends)))
    outgoing = [replace(report, channel=0) for report in reports if report.payload]
    if channel == 0:  # no consumer is without parcels
        outgoing += [
            Parcel(consumer, exchange.number, BEFORE_ALL, 0, Kind.REPORT, b"") for consumer in range(exchange.consumers)
        ]
    if outgoing:
        yield batch_of(outgoing)


def _parts(parcel: Parcel, exchange: Exchange, ends: Sequence[Key]) -> Iterator[Parcel]:
    """The parts of a block, which is sorted."""
    block = decoded(parcel.payload, exchange.schema)
    keys = Ordering(exchange.order).keys(block)
    cuts = [0]
    for end in ends:
        cuts.append(keys.upper(end, cuts[-1], block.num_rows))
    cuts += [block.num_rows] * (exchange.consumers + 1 - len(cuts))
    for consumer, (start, stop) in enumerate(pairwise(cuts)):
        if start < stop:
            yield replace(parcel, channel=consumer, payload=encoded(block.slice(start, stop - start)))
