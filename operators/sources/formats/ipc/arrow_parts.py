"""Read the record batches of an Arrow file in parts, where they are large.

pyarrow reads and decodes the body of a batch as a whole. A part is as many rows as take `BATCH_BYTES`, and only a row
that is larger than that is read alone. A dictionary is always read as a whole, and so are batches with types whose
values lie elsewhere (views, unions, run ends): they are refused where they take more than a row may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from ....core.batches import batch_of
from ....core.sizes import BATCH_BYTES
from ..format import BATCH_ROWS, RowTooLarge, part_too_large
from .arrow_buffers import InflatedBuffer, decoded_length
from .arrow_columns import NO_DICTIONARY, BatchLayout, DictionaryIds, buffer_lengths
from .arrow_messages import Message

#: A batch with a smaller body is read as a whole, which is faster.
LARGE: Final = 4 * BATCH_BYTES


class LargeBatch:
    """Some columns of a record batch, read in parts."""

    def __init__(
        self,
        file: pa.NativeFile,
        message: Message,
        schema: pa.Schema,
        indices: Sequence[int],
        dictionaries: HeldDictionaries,
    ) -> None:
        self.schema = pa.schema([schema.field(index) for index in indices])
        self._rows = message.rows
        layout = BatchLayout(file, message)
        columns = [
            layout.column(field.type, ids, dictionaries.values)
            for field, ids in zip(schema, dictionaries.ids, strict=True)
        ]
        self._columns = [columns[index] for index in indices]

    def size(self) -> int:
        """The bytes of the columns once they are decoded."""
        return sum(buffer.length for column in self._columns for buffer in column.all_buffers())

    def parts(self, largest: int, start: int = 0, end: int | None = None) -> Iterator[pa.RecordBatch]:
        """These rows, in order, in parts. A part has as many rows as take `BATCH_BYTES`, at least one. A row of more
        bytes than `largest` is an error.
        """
        decoders = sum(
            buffer.decoder_bytes()
            for column in self._columns
            for buffer in column.all_buffers()
            if isinstance(buffer, InflatedBuffer)
        )
        if decoders > max(largest, LARGE):
            what = f"a record batch with {len(self._columns):,} columns, all of which are decoded side by side,"
            raise part_too_large(what, decoders, largest, "smaller record batches")
        end = self._rows if end is None else min(end, self._rows)
        rows = BATCH_ROWS
        while start < end:
            rows = self._fitting(start, min(2 * rows, BATCH_ROWS, end - start))
            if rows == 1 and (size := self._size(start, start + 1, largest)) > largest:
                raise RowTooLarge(
                    f"row {start} of a record batch (counted from 0) has {size:,} bytes or more, and the task's "
                    f"memory_limit is {largest:,}: raise memory_limit"
                )
            arrays = [column.read(start, start + rows) for column in self._columns]
            yield batch_of(arrays, rows, self.schema)
            start += rows

    def _fitting(self, start: int, rows: int) -> int:
        while rows > 1 and self._size(start, start + rows, BATCH_BYTES) > BATCH_BYTES:
            rows //= 2
        return rows

    def _size(self, start: int, end: int, most: int) -> int:
        total = 0
        for column in self._columns:
            if total > most:
                break
            total += column.size(start, end, most - total)
        return total


@dataclass(slots=True)
class HeldDictionaries:
    """The dictionaries of a file's fields as far as they were read, and the types of their values."""

    ids: tuple[DictionaryIds, ...]
    types: dict[int, pa.DataType]
    values: dict[int, pa.Array] = field(default_factory=dict)

    def read(self, file: pa.NativeFile, message: Message, largest: int) -> None:
        """Read a dictionary, as a whole; one that no wanted field has is not read. All of them may have `largest`
        bytes.
        """
        number = message.dictionary
        if number is None or number not in self.types:
            return
        held = self.values.pop(number, None)
        before = held if message.is_delta else None
        # What is added to is copied.
        kept = [*self.values.values(), *([] if before is None else [before, before])]
        size = decoded_bytes(file, message) + sum(values.nbytes for values in kept)
        if size > largest:
            raise part_too_large("a dictionary", size, largest, "smaller dictionaries, or plain columns")
        values = BatchLayout(file, message).column(self.types[number], NO_DICTIONARY, {}).read(0, message.rows)
        self.values[number] = values if before is None else pa.concat_arrays([before, values])


def decoded_bytes(file: pa.NativeFile, message: Message) -> int:
    """The bytes of all buffers of a batch, as they are stored and once they are decoded."""
    lengths = buffer_lengths(message)
    if message.codec is None:
        return message.body_length
    if lengths.size and (lengths.min() < 0 or int(lengths.sum(axis=1).max()) > message.body_length):
        raise pa.ArrowInvalid("the metadata of a record batch has a buffer that is not in its body")
    decoded = (
        max(decoded_length(file, message.body + int(offset), int(stored)), 0)
        for offset, stored in lengths[np.flatnonzero(lengths[:, 1])]
    )
    return message.body_length + sum(decoded)
