"""Reads the rows of an iterable of user code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from ...proto.errors import InternalError
from ...proto.graph import STRIDE
from ...proto.values import MissingColumns
from ..core.batches import batch_of
from ..core.blocks import blocks
from ..core.operator import Operator, Stream
from ..sources.formats.matching import NULL_HINT, listed
from .user_code import UserCode, arrow_batches, is_arrow

_END: Final = object()


class Iterate(Operator):
    """The operator that yields the rows of an iterable in batches of `stride` rows. Items are Arrow data, or mappings
    or tuples of one row each.

    Order: the iterable's. Nulls: a mapping without a column is null there; a column that no mapping has is an error,
    unless `missing_columns` says null. Memory: a batch. Barrier: an iterable that can be iterated again (or a function
    that makes one) starts anew in each epoch. An iterator goes on: each epoch takes `epoch_rows` of its rows, even if
    not all of them were wanted, and the last epochs take the rest.

    The operator takes no more items than the wanted batch needs. Nothing interrupts an iterable that blocks.
    """

    def __init__(
        self,
        name: str,
        items: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        schema: pa.Schema,
        epoch_rows: int | None = None,
        channel: int = 0,
        stride: int = STRIDE,
        missing_columns: MissingColumns = MissingColumns.ERROR,
    ) -> None:
        self.schema = schema
        self._keys = _Keys(schema.names, missing_columns)
        self._items = items
        self._epoch_rows = epoch_rows
        self._stride = stride
        self._code = UserCode(name, schema, channel)
        self._continued: Iterator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self._left = 0
        self._used = False
        self._plan_path = f"node {name!r}"

    @property
    def lasting(self) -> bool:  # type: ignore[override]
        """An iterator goes on where it stands."""
        return isinstance(self._items, Iterator) or self._continued is not None

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if inputs:
            raise InternalError(f"node {self._code.node!r} takes no input")
        self._interrupted = False
        return self._run()

    def _run(self) -> Iterator[pa.RecordBatch]:
        yield from self._all_rows() if self._epoch_rows is None else self._next_rows(self._epoch_rows)
        if (lacking := self._keys.lacking()) is not None:
            raise self._code.wrong(lacking, "MISSING_COLUMN")

    def _all_rows(self) -> Iterator[pa.RecordBatch]:
        items = self._begun()
        try:
            yield from blocks(self._batches(items), self._stride)
        finally:
            self._close(items)

    def _begun(self) -> Iterator[Any]:
        self._keys.begin()
        items = self._items
        if isinstance(items, Iterator):
            if self._used:
                raise self._code.wrong(
                    "an earlier epoch has used up its iterator: give an iterable that can be iterated again, a "
                    "function that makes an iterator, or epoch_rows, the number of rows for each epoch",
                    "ITERATOR_USED_UP",
                )
            self._used = True
            return items
        iterable = self._code.call("making its iterable", items) if callable(items) else items
        return self._code.call("iterating", iter, iterable)

    def _next_rows(self, count: int) -> Iterator[pa.RecordBatch]:
        """The next `count` rows from where the last epoch ended. Rows that are not wanted are still taken from the
        iterator.
        """
        if self._continued is None:
            self._continued = self._batches(self._begun())
        self._left = count
        try:
            yield from blocks(self._take(self._continued), self._stride)
        finally:
            for _ in self._take(self._continued):
                pass

    def _take(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while self._left:
            batch = next(batches, None) if self._rest is None else self._rest
            self._rest = None
            if batch is None:
                return
            if batch.num_rows > self._left:
                self._rest = batch.slice(self._left)
                batch = batch.slice(0, self._left)
            self._left -= batch.num_rows
            yield batch

    def _batches(self, items: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        rows: list[Any] = []
        while (item := self._code.call("iterating", next, items, _END)) is not _END:
            self._stop_if_interrupted()
            if rows and not _go_together(rows[0], item):
                yield from self._of_rows(rows)
                rows = []
            if isinstance(item, Mapping | tuple):
                rows.append(item)
                if len(rows) >= min(self._stride, self._left or self._stride):
                    yield from self._of_rows(rows)
                    rows = []
            else:
                self._check(item)
                self._keys.have_all()
                yield from self._code.batches("iterating", arrow_batches, item)
        if rows:
            yield from self._of_rows(rows)

    def _of_rows(self, rows: list[Any]) -> Iterator[pa.RecordBatch]:
        return self._code.batches("making a batch of its rows", self._made, rows)

    def _check(self, item: object) -> None:
        if not is_arrow(item):
            raise self._code.wrong(
                f"iterating gave {type(item).__name__}: an item must be a mapping or a tuple (a row), or Arrow data",
                "NOT_ROWS",
            )

    def _made(self, rows: list[Any]) -> pa.RecordBatch:
        if isinstance(rows[0], tuple):
            self._keys.have_all()
            for row in rows:
                if len(row) != len(self.schema):
                    raise ValueError(f"{row!r} has {len(row)} values, and the schema has {len(self.schema)} columns")
            columns = list(zip(*rows, strict=True))
        else:
            self._keys.see(rows)
            columns = [tuple(row.get(name) for row in rows) for name in self.schema.names]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, self.schema, strict=True)]
        return batch_of(arrays, len(rows), self.schema)

    def _close(self, items: object) -> None:
        close = getattr(items, "close", None)
        if close is not None:
            self._code.call("closing its iterable", close)


class _Keys:
    """The columns that no item of an iterable has had yet."""

    def __init__(self, names: Sequence[str], missing_columns: MissingColumns) -> None:
        self._names = [] if missing_columns is MissingColumns.NULL else names
        self.begin()

    def begin(self) -> None:
        """Start with an iterable that has given nothing."""
        self._unseen: Sequence[str] = self._names
        self._known: Sequence[str] | None = None
        """The keys of the first mapping, as text."""

    def have_all(self) -> None:
        """Record an item that has values for all columns."""
        self._unseen = ()

    def see(self, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._unseen:
            self._known = [str(key) for key in rows[0]] if self._known is None else self._known
            self._unseen = [name for name in self._unseen if not any(name in row for row in rows)]

    def lacking(self) -> str | None:
        """The complaint about a column that is in none of the mappings, if there is one and any mapping came."""
        if self._known is None or not self._unseen:
            return None
        return f"no row of its iterable has column {self._unseen[0]!r}; there are: {listed(self._known)}{NULL_HINT}"


def _go_together(row: object, item: object) -> bool:
    """True where one batch can be made of this row and the next item."""
    return isinstance(item, tuple) if isinstance(row, tuple) else isinstance(item, Mapping)
