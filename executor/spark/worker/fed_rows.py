"""Rows of a DataFrame on their way into a stage: sent as parcels by Spark's tasks, and put into files by the channels.

A share is made of whole partitions of the DataFrame. So a partition that Spark computes again goes to the same channel,
even if its rows come in another order then.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from ....operators.core.batches import batch_of as batch_of_arrays
from ....operators.core.blocks import blocks
from ....operators.core.piece import FilePiece
from ....operators.core.sizes import batch_bytes
from ....proto.errors import Exhausted
from ....proto.values import MissingColumns
from .parcels import BEFORE_EXCHANGES, Kind, Parcel, batch_of, decoded, encoded
from .piece_files import InlineFile
from .stage import Fed


@dataclass(frozen=True, slots=True)
class SendRows:
    """Sends the rows of a partition of a DataFrame to `channels` channels. Runs in Spark's tasks."""

    fed: Fed
    channels: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = 0 if context is None else context.partitionId()
        channels = range(self.channels) if self.fed.whole else (partition % self.channels,)
        for number, block in enumerate(blocks(map(self._typed, batches))):
            payload = encoded(block)
            for channel in channels:
                yield batch_of([Parcel(channel, self.fed.number, partition, number, Kind.ROWS, payload)])

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in the wanted types. Spark gives instants in the session's zone."""
        arrays = [array.cast(field.type) for array, field in zip(batch.columns, self.fed.schema, strict=True)]
        return batch_of_arrays(arrays, batch.num_rows, self.fed.schema)


class FedRows:
    """The rows that come to a channel from DataFrames, in files of this process. They come before all other parcels.

    `parcels` are the others.
    """

    def __init__(self, parcels: Iterator[Parcel], fed: Sequence[Fed], folder: Path, quota: int) -> None:
        self.parcels = parcels
        self._fed = {rows.number: rows for rows in fed}
        self._files: dict[int, InlineFile] = {}
        try:
            self._fill(folder, quota)
        except BaseException:
            self.remove()
            raise

    def _fill(self, folder: Path, quota: int) -> None:
        size = 0
        with ExitStack() as stack:
            for number, fed in self._fed.items():
                file = InlineFile(folder / f"fed-{uuid.uuid4().hex}.arrow", fed.schema)
                self._files[number] = stack.enter_context(file)
            for parcel in self.parcels if self._fed else ():
                if parcel.exchange == BEFORE_EXCHANGES:
                    continue
                if parcel.exchange not in self._fed:
                    self.parcels = chain([parcel], self.parcels)
                    break
                block = decoded(parcel.payload, self._fed[parcel.exchange].schema)
                size += batch_bytes(block)
                if size > quota:
                    raise Exhausted(
                        f"the rows that the DataFrames feed to one channel take more than spill_quota ({quota} bytes): "
                        "raise spill_quota, or take more channels",
                        reason="SPILL_QUOTA",
                    )
                self._files[parcel.exchange].write(block)

    def pieces(self, *, whole: bool) -> Mapping[str, tuple[FilePiece, ...]]:
        """The pieces of the sources that are fed whole, or in shares."""
        return {
            fed.source: (self._files[number].piece(f"source {fed.source!r}", missing_columns=MissingColumns.NULL),)
            for number, fed in self._fed.items()
            if fed.whole is whole
        }

    def remove(self) -> None:
        for file in self._files.values():
            file.path.unlink(missing_ok=True)
