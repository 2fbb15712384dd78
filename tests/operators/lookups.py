"""Indexes that tests hold in their hands, and an executor that runs look-ups when told to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tidegate.operators.indexes import Index, Matches

T = TypeVar("T")
PROBE = pa.schema([("k", pa.int64())])
JOINED = pa.schema([("k", pa.int64()), ("square", pa.int64())])


class Transient(Exception):
    """An error that a `Squares` calls retryable."""


class Squares(Index):
    """For every key that is not negative its square. `fails` gives what a look-up of these keys raises, if anything."""

    name = "squares"
    key_types = (pa.int64(),)
    schema = pa.schema([("square", pa.int64())])

    def __init__(self, fails: Callable[[list[int]], Exception | None] = lambda keys: None) -> None:
        self.looked_up: list[list[int]] = []
        self.interrupted = 0
        self.closed = False
        self._fails = fails

    def lookup(self, keys: pa.RecordBatch) -> Matches:
        values = keys.column(0).to_numpy()
        self.looked_up.append(values.tolist())
        error = self._fails(values.tolist())
        if error is not None:
            raise error
        rows = np.flatnonzero(values >= 0)
        return Matches(rows=rows, columns=pa.record_batch({"square": values[rows] ** 2}))

    def retryable(self, error: Exception) -> bool:
        return isinstance(error, Transient)

    def interrupt(self) -> None:
        self.interrupted += 1

    def close(self) -> None:
        self.closed = True


class ByHand:
    """A `Submit` whose calls run when a test says so, on its thread. `on_submit` is called after each."""

    def __init__(self, on_submit: Callable[[ByHand], None] = lambda submit: None) -> None:
        self.waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.futures: list[Future[Any]] = []
        self.most = 0
        self._on_submit = on_submit

    def __call__(self, call: Callable[[], T], /) -> Future[T]:
        future: Future[T] = self.new_future()
        self.waiting.append((future, call))
        self.futures.append(future)
        self.most = max(self.most, len(self.waiting))
        self._on_submit(self)
        return future

    def new_future(self) -> Future[Any]:
        return Future()

    def run(self, at: int) -> None:
        """Make the call that waits at this place."""
        future, call = self.waiting.pop(at)
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except Exception as error:  # noqa: BLE001 - whoever asks for the result
                future.set_exception(error)


class LastFirst(ByHand):
    """Runs what waits, the last call first, when a look-up is first waited for."""

    def new_future(self) -> Future[Any]:
        submit = self

        class Asked(Future[Any]):
            def done(self) -> bool:
                while submit.waiting:
                    submit.run(-1)
                return super().done()

        return Asked()


def on_a_thread(call: Callable[[], T], /) -> Future[T]:
    """A `Submit` with a thread for each call."""
    future: Future[T] = Future()

    def run() -> None:
        future.set_running_or_notify_cancel()
        try:
            future.set_result(call())
        except Exception as error:  # noqa: BLE001 - whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
