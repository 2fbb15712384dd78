"""Rows of equal keys that wait for the end of their windows: the base of windows that have no slices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import pyarrow as pa

from ...core.operator import StateReader, StateWriter
from ..change_operator import ChangeOperator, Kept
from ..kept.arrangement import Arrangement
from ..kept.state_format import load_numbers, save_numbers
from ..values.change import Change
from ..values.evaluator import Evaluator
from .timed_rows import TimedRows
from .window_closing import NEVER, Closing, after_closing

AnyClosing = TypeVar("AnyClosing", bound=Closing)


class WaitingRows(ChangeOperator, Generic[AnyClosing]):
    """Keeps rows whose first column is their tick, and whose next `keys` columns are the keys: the rows by their keys,
    and their ticks and keys in the order of the ticks. A subclass gives windows in `advance`, by `evaluate`, and moves
    `_last`, the last tick that it has looked at.
    """

    _version = 1
    """The version of the state in a checkpoint."""

    def __init__(
        self,
        input_schema: pa.Schema,
        schema: pa.Schema,
        closing: AnyClosing,
        evaluate: Evaluator,
        *,
        keys: int,
        plan_path: str,
    ) -> None:
        self.schema = schema
        self._input_schema = input_schema
        self._closing = closing
        self._evaluate = evaluate
        self._whose = f"{plan_path}: {type(self).__name__}"
        self._keys = range(1, 1 + keys)
        self._ticks_schema = pa.schema(list(input_schema)[: 1 + keys])
        self._rows = Arrangement(input_schema.types, self._keys, depth=0)
        self._ticks = TimedRows(self._ticks_schema.types)
        self._last = NEVER

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - there is one input
        self._rows.insert(change)
        self._ticks.insert(change.with_rows(change.rows.select(range(1 + len(self._keys)))))
        return ()

    def watermark(self, watermark: int | None) -> int | None:
        return after_closing(self._closing, watermark)

    def kept(self) -> Iterable[Kept]:
        yield Kept("rows", self._rows, self._input_schema)
        yield Kept("ticks", self._ticks, self._ticks_schema)

    def save(self, state: StateWriter) -> None:
        save_numbers(state, "closed", self._version, {"last": self._last})
        super().save(state)

    def load(self, state: StateReader) -> None:
        (self._last,) = load_numbers(state, "closed", self._version)
        super().load(state)
        self._ticks.drop_below(self._last + 1)
