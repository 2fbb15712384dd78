"""What a streaming aggregate computes of each group, where it is known which rows are whose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..proto.errors import InternalError
from .blocks import BLOCK_ROWS
from .fragment import Fragment
from .inputs import StreamSource
from .instances import Instance
from .layout import Places
from .streams import BatchStream

#: By a number of one byte DuckDB finds a group without a hash table.
_NUMBERS = (pa.uint8(), pa.uint32())
_FEW = 256


class GroupMeasures:
    """`measures` in SQL over c0, c1, ..., grouped by the group's number, in a column behind them. `outputs` are
    the measures' fields.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        measures: Sequence[str],
        outputs: Sequence[pa.Field],
        *,
        instance: Instance,
        place: str,
    ) -> None:
        self._place = place
        self._fragments: list[Fragment] = []
        number = f"c{len(input_schema)}"
        sql = f"SELECT {', '.join((number, *measures))} FROM in0 GROUP BY {number}"
        self._schemas = [input_schema.append(pa.field(number, type_)) for type_ in _NUMBERS]
        try:
            for schema in self._schemas:
                source = StreamSource(relation="in0", schema=schema, size_class=BLOCK_ROWS)
                given = pa.schema([schema.field(-1), *outputs])
                fragment = Fragment(sql, schema=given, instance=instance, streams=[source], strict=False, place=place)
                self._fragments.append(fragment)
        except BaseException:
            self.close()
            raise

    def of_groups(self, rows: pa.RecordBatch, begins: Places) -> list[pa.Array]:
        """A column for each measure, with a row for each of the groups that begin at these places; the first is 0."""
        width = int(begins.size > _FEW)
        numbers = np.arange(begins.size, dtype=_NUMBERS[width].to_pandas_dtype())
        each_row = np.repeat(numbers, np.diff(begins, append=rows.num_rows))
        return self._grouped(width, [self._numbered(rows, width, each_row)], begins.size)

    def of_one_group(self, batches: Iterable[pa.RecordBatch]) -> list[pa.Array]:
        """The same for a single group, taken as it comes."""
        return self._grouped(0, (self._numbered(batch, 0, np.zeros(batch.num_rows, np.uint8)) for batch in batches), 1)

    def interrupt(self) -> None:
        for fragment in self._fragments:
            fragment.interrupt()

    def close(self) -> None:
        for fragment in self._fragments:
            fragment.close()

    def _numbered(self, rows: pa.RecordBatch, width: int, numbers: npt.NDArray[Any]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*rows.columns, pa.array(numbers)], schema=self._schemas[width])

    def _grouped(self, width: int, batches: Iterable[pa.RecordBatch], groups: int) -> list[pa.Array]:
        """In order of the groups' numbers, whatever order the statement gives them in."""
        fragment = self._fragments[width]
        found = pa.Table.from_batches(fragment.run([BatchStream(self._schemas[width], batches)]), fragment.schema)
        if found.num_rows != groups:
            raise InternalError(f"{self._place}: {groups} groups have {found.num_rows} rows")
        [rows] = found.combine_chunks().to_batches()
        numbers = rows.column(0).to_numpy()
        if np.any(numbers[1:] < numbers[:-1]):
            rows = rows.take(pa.array(np.argsort(numbers)))
        return list(rows.columns[1:])
