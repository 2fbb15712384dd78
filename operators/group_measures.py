"""The measures of a streaming aggregate, for groups whose rows are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ..proto.errors import InternalError
from .arrays.layout import Places, take
from .arrays.reductions import Reduction, reduce, reducible
from .core.batches import batch_of
from .core.blocks import BLOCK_ROWS
from .core.streams import BatchStream
from .duckdb.fragment import Fragment
from .duckdb.instances import Instance
from .duckdb.statement_inputs import StreamSource

#: DuckDB finds a group by a number of one byte without a hash table.
_NUMBERS = (pa.uint8(), pa.uint32())
_FEW = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """An aggregate in SQL over the columns c0, c1, ... A simple aggregate has an equal `reduction`."""

    sql: str
    reduction: Reduction | None = None


class Part:
    """Rows of whole groups, which begin at the positions `begins`, of which the first is 0."""

    def __init__(self, rows: pa.RecordBatch, begins: Places) -> None:
        self.rows = rows
        self.begins = begins
        self.lengths: Places = np.empty_like(begins)
        np.subtract(begins[1:], begins[:-1], out=self.lengths[:-1])
        self.lengths[-1] = rows.num_rows - begins[-1]

    def first_of_each(self, column: int) -> pa.Array:
        values = self.rows.column(column)
        return values[:1] if self.begins.size == 1 else take(values, pa.array(self.begins))


class GroupMeasures:
    """The measures of groups. A statement computes them, grouped by the number of the group in a column behind the
    input's. Where all measures are reductions, they are computed without DuckDB. `outputs` are the measures' fields.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        measures: Sequence[Measure],
        outputs: Sequence[pa.Field],
        *,
        instance: Instance,
        plan_path: str,
    ) -> None:
        self._plan_path = plan_path
        self._outputs = [field.type for field in outputs]
        self._reductions = _reductions(input_schema, measures, self._outputs)
        self._fragments: list[Fragment] = []
        number = f"c{len(input_schema)}"
        sql = f"SELECT {', '.join((number, *(measure.sql for measure in measures)))} FROM in0 GROUP BY {number}"
        self._schemas = [input_schema.append(pa.field(number, type_)) for type_ in _NUMBERS]
        try:
            for schema in self._schemas:
                source = StreamSource(relation="in0", schema=schema, size_class=BLOCK_ROWS)
                result_schema = pa.schema([schema.field(-1), *outputs])
                fragment = Fragment(
                    sql, schema=result_schema, instance=instance, streams=[source], strict=False, plan_path=plan_path
                )
                self._fragments.append(fragment)
        except BaseException:
            self.close()
            raise

    def of_groups(self, parts: Sequence[Part]) -> list[pa.Array]:
        """A column for each measure, with a row for each group, part after part."""
        reduced = [self._reduced(part) for part in parts]
        if all(reduced):
            return [joined(columns) for columns in zip(*reduced, strict=True)]
        groups = sum(part.begins.size for part in parts)
        width = int(groups > _FEW)
        return self._grouped(width, self._by_number(parts, width), groups)

    def of_one_group(self, batches: Iterable[pa.RecordBatch]) -> list[pa.Array]:
        """The measures of a single group, whose batches are read as they come."""
        return self._grouped(0, (self._numbered(batch, 0, np.zeros(batch.num_rows, np.uint8)) for batch in batches), 1)

    def interrupt(self) -> None:
        for fragment in self._fragments:
            fragment.interrupt()

    def close(self) -> None:
        for fragment in self._fragments:
            fragment.close()

    def _reduced(self, part: Part) -> list[pa.Array]:
        """The columns, where none of them needs DuckDB; else an empty list."""
        columns = []
        for reduction, type_ in zip(self._reductions, self._outputs, strict=False):
            column = reduce(reduction, part.rows, part.begins, part.lengths, type_)
            if column is None:
                return []
            columns.append(column)
        return columns

    def _by_number(self, parts: Sequence[Part], width: int) -> Iterator[pa.RecordBatch]:
        number = 0
        for part in parts:
            numbers = np.arange(number, number + part.begins.size, dtype=_NUMBERS[width].to_pandas_dtype())
            yield self._numbered(part.rows, width, np.repeat(numbers, part.lengths))
            number += part.begins.size

    def _numbered(self, rows: pa.RecordBatch, width: int, numbers: npt.NDArray[Any]) -> pa.RecordBatch:
        return batch_of([*rows.columns, pa.array(numbers)], rows.num_rows, self._schemas[width])

    def _grouped(self, width: int, batches: Iterable[pa.RecordBatch], groups: int) -> list[pa.Array]:
        """The columns by DuckDB, in order of the groups' numbers, whatever the order of the statement's rows."""
        fragment = self._fragments[width]
        table = pa.Table.from_batches(fragment.run([BatchStream(self._schemas[width], batches)]), fragment.schema)
        if table.num_rows != groups:
            raise InternalError(f"{self._plan_path}: {groups} groups have {table.num_rows} rows")
        [rows] = table.combine_chunks().to_batches()
        numbers = rows.column(0).to_numpy()
        if np.any(numbers[1:] < numbers[:-1]):
            rows = rows.take(pa.array(np.argsort(numbers)))
        return list(rows.columns[1:])


def joined(columns: Sequence[pa.Array]) -> pa.Array:
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def _reductions(schema: pa.Schema, measures: Sequence[Measure], outputs: Sequence[pa.DataType]) -> list[Reduction]:
    """The reductions of all measures; none where one measure needs DuckDB, which then computes the others as well."""
    reductions = [
        measure.reduction
        for measure, output in zip(measures, outputs, strict=True)
        if measure.reduction is not None and reducible(measure.reduction, schema, output)
    ]
    return reductions if len(reductions) == len(measures) else []
