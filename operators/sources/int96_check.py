"""The check of instants that a Parquet file stores as INT96: each one is right, or the file is refused.

Arrow reads days of a number of 32 bits into microseconds of 64 bits, and does not notice where they wrap round. Seconds
never do. So the instants are read once more in seconds, and checked, before any row is handed out.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ...proto.arrow.parquet_footer import Footer
from ...proto.arrow.parquet_instants import in_the_calendar_of_spark_2, int96_columns
from ...proto.errors import SplitError

_IN_SECONDS: Final = pa.timestamp("s")
"""The type of INT96 that Arrow reads in seconds. Parquet's other timestamps have shorter units."""
_FIRST: Final = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
_FIRST_OF_BOTH: Final = dt.datetime(1900, 1, 1, tzinfo=dt.UTC)
"""From here on the calendar of Spark 2 is today's, in every time zone."""
_LAST: Final = dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC)


class Instants:
    """The columns of a file that have INT96 inside. `written` are the texts that the file's writer has put into the
    footer, `where` names the file.
    """

    def __init__(self, footer: Footer, written: Mapping[bytes, bytes] | None, where: str) -> None:
        self._columns = int96_columns(footer)
        self._of_spark_2 = in_the_calendar_of_spark_2(written or {})
        self._where = where

    def among(self, names: Sequence[str]) -> list[str]:
        """The columns of these names that have INT96 inside."""
        return [name for name in names if name in self._columns]

    def typed(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        """Rows that Arrow has read, with the types of `schema`, the file's."""
        for at, name in enumerate(batch.schema.names):
            if name in self._columns:
                field = schema.field(name)
                batch = batch.set_column(at, field, batch.column(at).cast(field.type))
        return batch

    def checked(self, batches: Iterable[pa.RecordBatch], seconds: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches of a row group, each one once its rows are checked in `seconds`: the columns with instants, read
        in seconds.
        """
        ahead = 0
        for batch in batches:
            ahead -= batch.num_rows
            while ahead < 0 and (some := next(seconds, None)) is not None:
                ahead += some.num_rows
                for name, column in zip(some.schema.names, some.columns, strict=True):
                    for instants in _instants_in(column):
                        self._check(instants, name)
            yield batch

    def _check(self, instants: pa.Array, name: str) -> None:
        bounds = pc.min_max(instants.cast(pa.int64())).as_py()
        if bounds["min"] is None:
            return
        first = _FIRST_OF_BOTH if self._of_spark_2 else _FIRST
        if bounds["min"] < first.timestamp() or bounds["max"] > _LAST.timestamp():
            why = (
                "the file is in the calendar of Spark 2, which is another one before 1900: write it again with "
                "spark.sql.parquet.int96RebaseModeInWrite=CORRECTED"
                if self._of_spark_2
                else "only these years are read from INT96: write it in another form"
            )
            raise SplitError(
                f"{self._where}: column {name!r} has an instant in INT96 outside of the years {first.year} to "
                f"{_LAST.year}; {why}",
                reason="SPLIT_UNREADABLE",
            )


def _instants_in(array: pa.Array) -> Iterator[pa.Array]:
    if kinds.is_struct(array.type):
        for inside in array.flatten():
            yield from _instants_in(inside)
    elif kinds.is_map(array.type):
        yield from _instants_in(array.keys)
        yield from _instants_in(array.items)
    elif kinds.is_nested(array.type):
        yield from _instants_in(array.flatten())
    elif array.type == _IN_SECONDS:
        yield array
