"""A DuckDB statement over batches in memory, planned once."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Final

import pyarrow as pa

from ....proto.arrow.without_rows import no_values
from ....proto.errors import ExecutionError, InternalError
from ...core.batches import batch_of, joined
from ...core.streams import BatchStream
from ...duckdb.fragment import Fragment
from ...duckdb.instances import Instance
from ...duckdb.statement_inputs import StreamSource

PLANNED_ROWS: Final = 65_536
"""The number of rows that a statement is planned for; more or fewer may come."""

NUMBER: Final = pa.field("number", pa.int64())
"""The column behind the columns of rows that a statement is to tell apart."""


_OF_ROWS: Final = {ExecutionError.default_reason, "NULL_IN_REQUIRED_COLUMN", "ROW_TOO_LARGE", "VALUE_LOST"}
"""The reasons of errors that are of a statement's rows, and none where the rows do not exist."""


class RowsFailed(ExecutionError):
    """A statement failed because of the values of its rows: of a cast, an overflow, a null that must not be. It travels
    as an `ExecutionError`.
    """


class Evaluator:
    """An evaluator of `sql` over relations in0, in1, ... of these `inputs`, whose columns are c0, c1, ... The result's
    rows have no order. The statement is planned for as many `rows` of each input, where they are given. `replayed` are
    the positions of inputs that it may read more than once.
    """

    def __init__(
        self,
        sql: str,
        inputs: Sequence[pa.Schema],
        schema: pa.Schema,
        *,
        instance: Instance,
        plan_path: str,
        rows: Sequence[int] = (),
        replayed: Container[int] = (),
    ) -> None:
        self.schema = schema
        planned = rows or (PLANNED_ROWS,) * len(inputs)
        sources = [
            StreamSource(
                relation=f"in{number}", schema=numbered(input_schema), size_class=size, replayed=number in replayed
            )
            for number, (input_schema, size) in enumerate(zip(inputs, planned, strict=True))
        ]
        self._schemas = [source.schema for source in sources]
        self._rested_plans = 0
        self._make = partial(Fragment, sql, schema=schema, streams=sources, strict=False, plan_path=plan_path)
        self._fragment: Fragment | None = self._make(instance=instance)

    def __call__(self, *inputs: pa.RecordBatch) -> pa.RecordBatch:
        """The answer to the rows of each input, whose columns go by position."""
        streams = [
            BatchStream(schema, iter([batch_of(rows.columns, rows.num_rows, schema)]))
            for schema, rows in zip(self._schemas, inputs, strict=True)
        ]
        if self._fragment is None:
            raise InternalError("a statement was called while it was not in use")
        try:
            batches = list(self._fragment.run(streams))
        except ExecutionError as error:
            if error.reason in _OF_ROWS:
                raise RowsFailed(error.message, reason=error.reason) from error
            raise
        return joined(batches, self.schema)

    @property
    def plans(self) -> int:
        """The number of times that DuckDB has planned the statement."""
        fragment = self._fragment
        return self._rested_plans + (0 if fragment is None else fragment.plans)

    def interrupt(self) -> None:
        fragment = self._fragment
        if fragment is not None:
            fragment.interrupt()

    def rest(self) -> None:
        """Let go of the instance, until `go_on`."""
        fragment, self._fragment = self._fragment, None
        if fragment is not None:
            self._rested_plans += fragment.plans
            fragment.close()

    def go_on(self, instance: Instance) -> None:
        """Plan the statement again, after a rest."""
        if self._fragment is None:
            self._fragment = self._make(instance=instance)

    def close(self) -> None:
        self.rest()


class Evaluators:
    """The statements of a network's operators, on one instance, one at a time. Each is planned once for all operators
    and channels that run it. It outlives them: a network that is reset makes its operators anew.

    `instance` gives the instance. A network without statements never calls it, because making one takes tens of
    milliseconds.
    """

    def __init__(self, instance: Callable[[], Instance]) -> None:
        self._instance = instance
        self._made: dict[tuple[object, ...], Evaluator] = {}

    def of(
        self,
        sql: str,
        inputs: Sequence[pa.Schema],
        schema: pa.Schema,
        plan_path: str,
        *,
        rows: Sequence[int] = (),
        replayed: Container[int] = (),
    ) -> Evaluator:
        key = (sql, *inputs, schema, plan_path, *rows)
        evaluator = self._made.get(key)
        if evaluator is None:
            evaluator = Evaluator(
                sql, inputs, schema, instance=self._instance(), plan_path=plan_path, rows=rows, replayed=replayed
            )
            self._made[key] = evaluator
        return evaluator

    def rest(self) -> None:
        """Let go of the instance, until `go_on`."""
        for evaluator in self._made.values():
            evaluator.rest()

    def go_on(self) -> None:
        """Plan all statements again, after a rest."""
        for evaluator in self._made.values():
            evaluator.go_on(self._instance())

    @property
    def plans(self) -> int:
        return sum(evaluator.plans for evaluator in tuple(self._made.values()))

    def interrupt(self) -> None:
        """Stop the statement that runs. Any thread may call it."""
        for evaluator in tuple(self._made.values()):
            evaluator.interrupt()

    def close(self) -> None:
        for evaluator in self._made.values():
            evaluator.close()
        self._made.clear()


def first_failing(count: int, evaluate: Callable[[int, int], object], error: RowsFailed) -> tuple[int, RowsFailed]:
    """The number and the error of the first of `count` items that fails, where `evaluate` raised `error` for all of
    them. `evaluate` takes a half-open range of items; the search goes by halves.
    """

    def failure(first: int, last: int) -> RowsFailed | None:
        try:
            evaluate(first, last)
        except RowsFailed as error:
            return error
        return None

    start, end = 0, count
    while end - start > 1:
        middle = (start + end) // 2
        failed = failure(start, middle)
        start, end, error = (middle, end, error) if failed is None else (start, middle, failed)
    return start, failure(start, end) or error


def numbered(schema: pa.Schema) -> pa.Schema:
    """The same columns, called c0, c1, ..."""
    return pa.schema([field.with_name(f"c{at}") for at, field in enumerate(schema)])


def whole(column: pa.ChunkedArray) -> pa.Array:
    """All of a column as one array. Raises Arrow's error for text that is larger than one array can be."""
    chunks: list[pa.Array] = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else no_values(column.type)
