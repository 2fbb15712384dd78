"""Calls of user code: its rows become batches of one schema, and its exceptions become errors that name the node."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Final, TypeVar

import pyarrow as pa

from ...proto.arrow.arrow_streams import with_a_stream
from ...proto.errors import NodeError
from ..arrays.casts import cast, plain, stored
from ..core.batches import batch_of
from ..core.interrupts import look

T = TypeVar("T")

_END: Final = object()
_LONGEST_TEXT: Final = 10_000
"""The most characters of an exception's text in a message."""
_SEQUENCES: Final = (list, tuple)
_NO_ITEMS: Final = (str, bytes, dict)
"""The types that can be iterated, but not over rows. It is a tuple of types, because a union would be made anew for
each batch.
"""


class UserCode:
    """The code of one node, as it runs on one channel. Its batches must have the `schema`."""

    def __init__(self, node: str, schema: pa.Schema, channel: int | None = None) -> None:
        self.node = node
        self.schema = schema
        self.channel = channel
        self._required = tuple(at for at, field in enumerate(schema) if not field.nullable)

    def call(self, doing: str, function: Callable[..., T], *arguments: object) -> T:
        """The function's result. An exception becomes a `NodeError` that says what the code was `doing`."""
        try:
            return function(*arguments)
        except KeyboardInterrupt:  # the user who waits on this thread pressed Ctrl-C
            raise
        except BaseException as error:
            raise self._raised(doing, error) from error

    def batches(self, doing: str, function: Callable[..., Any], *arguments: object) -> Iterator[pa.RecordBatch]:
        """The rows that the function returns, without empty batches. A generator of user code is closed with this
        one.
        """
        result = self.call(doing, function, *arguments)
        if result is None:
            return
        if isinstance(result, pa.RecordBatch):
            if result.num_rows:
                yield self._fitted(result, doing)
        elif type(result) in _SEQUENCES:  # no user code runs between its items
            for item in result:
                if isinstance(item, pa.RecordBatch):
                    if item.num_rows:
                        yield self._fitted(item, doing)
                else:
                    yield from self._of_item(item, doing)
        elif is_arrow(result):
            yield from self._of_data(result, doing)
        else:
            yield from self._of_items(result, doing)

    def check_rows(self, rows: object, doing: str) -> None:
        """Raise where the value is no Arrow data."""
        if not is_arrow(rows):
            raise self._no_rows(rows, doing)

    def wrong(self, what: str, reason: str) -> NodeError:
        return NodeError(what, node=self.node, channel=self.channel, reason=reason)

    # ---------------------------------------------------------------------------------------------------- inside

    def _of_items(self, result: object, doing: str) -> Iterator[pa.RecordBatch]:
        if isinstance(result, _NO_ITEMS) or not hasattr(result, "__iter__"):
            raise self._no_rows(result, doing)
        items: Any = self.call(doing, iter, result)
        try:
            while True:
                look()  # it may give empty batches without end
                try:  # `call` would cost as much again as a small generator
                    item = next(items, _END)
                except KeyboardInterrupt:
                    raise
                except BaseException as error:
                    raise self._raised(doing, error) from error
                if item is _END:
                    return
                if isinstance(item, pa.RecordBatch):
                    if item.num_rows:
                        yield self._fitted(item, doing)
                else:
                    yield from self._of_item(item, doing)
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                self.call(doing, close)

    def _of_item(self, item: object, doing: str) -> Iterator[pa.RecordBatch]:
        """The batches of an item that is no batch itself."""
        if is_arrow(item):
            yield from self._of_data(item, doing)
        elif item is not None:
            raise self._no_rows(item, doing)

    def _of_data(self, data: Any, doing: str) -> Iterator[pa.RecordBatch]:
        batches = iter(self.call(doing, arrow_batches, data))
        while (batch := self.call(doing, next, batches, None)) is not None:
            if batch.num_rows:
                yield self._fitted(batch, doing)

    def _fitted(self, batch: pa.RecordBatch, doing: str) -> pa.RecordBatch:
        """The batch under the node's schema. Only the nullability of columns may differ."""
        schema = batch.schema
        if not schema.equals(self.schema):
            if schema.names == self.schema.names and schema.types != self.schema.types:
                batch = self._as_stored(batch, doing)
            if schema.names != self.schema.names or batch.schema.types != self.schema.types:
                raise self.wrong(
                    f"{doing} gave rows of ({shown(schema)}), but the node's schema is ({shown(self.schema)}): give "
                    "the same columns, in the same order and of the same types",
                    "SCHEMA_MISMATCH",
                )
            batch = batch_of(batch.columns, batch.num_rows, self.schema)
        for at in self._required:
            if batch.column(at).null_count:
                raise self.wrong(
                    f"{doing} gave a null in column {self.schema.names[at]!r}, which is required in the node's schema",
                    "NULL_IN_REQUIRED",
                )
        return batch

    def _as_stored(self, batch: pa.RecordBatch, doing: str) -> pa.RecordBatch:
        """The batch with texts in the storage of the schema: polars, for one, stores texts in another way."""
        arrays = [
            self.call(doing, cast, array, field.type) if plain(stored(array.type)) == plain(field.type) else array
            for array, field in zip(batch.columns, self.schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names)

    def _no_rows(self, result: object, doing: str) -> NodeError:
        return self.wrong(
            f"{doing} gave {type(result).__name__}, which has no rows: give None, a record batch, a table, anything "
            "that speaks the Arrow C stream protocol, or an iterable of these",
            "NOT_ROWS",
        )

    def _raised(self, doing: str, error: BaseException) -> NodeError:
        lines = traceback.format_exception(type(error), error, _of_user(error.__traceback__))
        text = "".join(map(_short, lines)).rstrip()
        said = " ".join(_short(_text_of(error)).split())
        return self.wrong(f"{doing} raised {type(error).__name__}{f': {said}' if said else ''}\n{text}", "NODE_FAILED")


def arrow_batches(data: Any) -> Iterable[pa.RecordBatch]:
    """The batches of Arrow data in any shape."""
    match data:
        case pa.RecordBatch():
            return (data,)
        case pa.Table():
            return data.to_batches()  # type: ignore[no-any-return]
        case _ if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(with_a_stream(data))  # type: ignore[no-any-return]
        case _:
            return (pa.record_batch(data),)


def _text_of(error: BaseException) -> str:
    """The text of an exception of user code. Making the text runs user code, too."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the message still has the exception's type and the traceback
        return ""


def _short(text: str) -> str:
    """A text of user code, or its two ends: a task keeps the message for as long as readers may ask for it."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT // 2]} ... {text[-_LONGEST_TEXT // 2 :]}"


def is_arrow(data: object) -> bool:
    """True where the data speaks one of Arrow's protocols."""
    return hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")


def shown(schema: pa.Schema) -> str:
    """A schema, written for a sentence."""
    return ", ".join(f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema)


def _of_user(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without this module's frames."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__ and trace.tb_next is not None:
        trace = trace.tb_next
    return trace
