"""IndexLookupJoin: each row of the input with the rows that an index has for its keys.

Order: the input's rows, each with its matches in the index's own order. The order depends neither on the prefetch, nor
on the order in which look-ups end, nor on the input's batches. Nulls: a key with a null matches nothing; a left join
still gives its row. Empty input: no rows, no look-up. Memory: at most 2 * `prefetch` + 1 look-up batches: `prefetch`
+ 1 in flight, and `prefetch` with all their matches that wait for an earlier one to end. So a late look-up holds up its
own rows, and not the start of others. A look-up batch has as many rows as take about `BATCH_BYTES` once they are
joined, by the look-ups before it, and all of them together have about `WAITING_BYTES`: matches may be much wider than
their keys. Barrier: the rows of look-ups in flight are handed out before `run` returns; nothing is kept.

While so many look-ups are in flight, or wait, the input is not read. Errors come in the order of the rows: the error of
a later row, or of the input, comes only after all rows before it were handed out. An early close drops the look-ups in
flight: look-ups that have not begun never begin, the others are told to end, and `run` does not wait for them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from ..proto.errors import ExecutionError, InternalError, SplitError
from .arrays.layout import arrow_positions
from .core.batches import batch_of, joined
from .core.blocks import blocks
from .core.interrupts import interrupted
from .core.operator import Operator, Stream
from .core.sizes import BATCH_BYTES, batch_bytes, rows_within
from .core.submit import Submit, at_once
from .core.wide_rows import taken
from .indexes.index import Index, Matches, RowNumbers, is_every
from .indexes.key_range import key_range

LookupJoinType: TypeAlias = Literal["inner", "left"]
Pause: TypeAlias = Callable[[threading.Event, float], object]

LOOKUP_ROWS = 4_096
#: About the bytes of the look-ups that are in flight, or wait.
WAITING_BYTES: Final = 32 << 20
#: The bytes that a joined row counts for before any has been seen.
_UNSEEN_WIDTH: Final = BATCH_BYTES // 16
#: A row never counts for less than this part of the rows of the look-up before.
_NARROWER: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """The retries of a look-up. A look-up that fails with an error that its index calls retryable is made again up to
    `count` times: after `backoff` seconds, then after twice as many each time, up to `longest`.
    """

    count: int = 0
    backoff: float = 0.1
    longest: float = 10.0

    def __post_init__(self) -> None:
        if self.count < 0 or self.backoff < 0 or self.longest < 0:
            raise InternalError(f"retries cannot be negative: {self}")

    def pause(self, failed: int) -> float:
        """The seconds to wait after so many look-ups have failed."""
        return min(self.backoff * 2.0 ** min(failed - 1, 64), self.longest)


@dataclass(slots=True, eq=False)
class _Lookup:
    """A look-up batch: its rows, and the keys of the rows without a null (`rows` has their numbers; None: all). `size`
    is about the bytes of the joined rows.
    """

    probe: pa.RecordBatch
    keys: pa.RecordBatch
    rows: RowNumbers | None
    size: int
    attempts: int = 0
    future: Future[pa.RecordBatch] = field(init=False)


@dataclass(slots=True, eq=False)
class _Run:
    """The run of one epoch. `stopped`: no look-up begins or waits any more. `moved`: a look-up has ended, or all shall
    stop. `in_flight` are the look-ups that have not ended.
    """

    moved: threading.Event
    stopped: threading.Event = field(default_factory=threading.Event)
    in_flight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begins(self, future: Future[pa.RecordBatch]) -> None:
        with self._lock:
            self.in_flight += 1
        future.add_done_callback(self._ended)

    def stop_if_interrupted(self, plan_path: str) -> None:
        if self.stopped.is_set():
            raise interrupted(plan_path)

    def _ended(self, _: Future[pa.RecordBatch]) -> None:
        with self._lock:
            self.in_flight -= 1
        self.moved.set()


class IndexLookupJoin(Operator):
    """The operator. `keys` are the positions of the input's key columns. `schema` has the input's columns, then the
    index's.

    `submit` has look-ups made on other threads; without it they are made on the calling thread, one by one. `pause`
    waits between attempts, or until the event is set. `close` closes the index.
    """

    def __init__(
        self,
        *,
        schema: pa.Schema,
        probe: pa.Schema,
        keys: Sequence[int],
        index: Index,
        join: LookupJoinType = "inner",
        batch_rows: int = LOOKUP_ROWS,
        prefetch: int = 0,
        retries: Retries | None = None,
        submit: Submit = at_once,
        pause: Pause = threading.Event.wait,
        plan_path: str = "",
    ) -> None:
        self.schema = schema
        self._keys = tuple(keys)
        self._index = index
        self._left = join == "left"
        self._batch_rows = batch_rows
        self._prefetch = prefetch
        self._retries = retries or Retries()
        self._submit = submit
        self._pause = pause
        self._plan_path = plan_path
        self._width = _UNSEEN_WIDTH
        self._moved = threading.Event()
        self._run_in_progress: _Run | None = None
        if batch_rows < 1 or prefetch < 0:
            raise InternalError(
                f"{plan_path}: there cannot be look-up batches of {batch_rows} rows, {prefetch} of them ahead"
            )
        self._check_types(probe)
        names = [f"k{i}" for i in range(len(self._keys))]
        self._key_schema = pa.schema(list(zip(names, index.key_types, strict=True)))

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if len(inputs) != 1:
            raise InternalError(f"{self._plan_path}: {len(inputs)} inputs for an index look-up join")
        self._run_in_progress = run = _Run(self._moved)
        return self._rows(inputs[0], run)

    def interrupt(self) -> None:
        run = self._run_in_progress
        if run is not None:
            run.stopped.set()
            run.moved.set()
            self._index.interrupt()

    @property
    def lasting(self) -> bool:  # type: ignore[override]
        return self._index.lasting

    def close(self) -> None:
        self._index.close()

    # ------------------------------------------------------------------------------------------------ an epoch

    def _rows(self, stream: Stream, run: _Run) -> Iterator[pa.RecordBatch]:
        begun: deque[_Lookup] = deque()
        broken: list[Exception] = []
        try:
            for batch in self._lookup_batches(_until_it_breaks(stream, broken)):
                begun.append(self._begin(batch, run))
                while begun and (len(begun) > self._prefetch or _heavy(begun)) and self._must_finish(begun, run):
                    yield from self._finish(begun, run)
            while begun:
                yield from self._finish(begun, run)
            if broken:
                raise broken[0]
        finally:
            self._run_in_progress = None
            run.stopped.set()
            self._abandon(begun)
            stream.close()

    def _lookup_batches(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for block in blocks(stream, self._batch_rows):
            start = 0
            while start < block.num_rows:
                most = rows_within(BATCH_BYTES, self._width, self._batch_rows)
                part = block.slice(start, most) if start or most < block.num_rows else block
                yield part
                start += part.num_rows

    def _begin(self, probe: pa.RecordBatch, run: _Run) -> _Lookup:
        run.stop_if_interrupted(self._plan_path)
        lookup = self._lookup(probe)
        if not lookup.keys.num_rows:
            lookup.future = at_once(lambda: self._joined(lookup, self._no_matches()))
            return lookup
        lookup.future = self._submit(lambda: self._looked_up(lookup, run))
        if self._submit is not at_once:  # a call that is made at once has ended
            run.begins(lookup.future)
        return lookup

    def _must_finish(self, begun: deque[_Lookup], run: _Run) -> bool:
        """Wait until a look-up can go on. True where the oldest look-up is to be finished next, rather than another one
        begun.
        """
        oldest = begun[0].future
        self._wait(lambda: oldest.done() or not self._crowded(begun, run), run)
        return oldest.done()

    def _crowded(self, begun: deque[_Lookup], run: _Run) -> bool:
        return run.in_flight > self._prefetch or len(begun) > 2 * self._prefetch or _heavy(begun)

    def _finish(self, begun: deque[_Lookup], run: _Run) -> Iterator[pa.RecordBatch]:
        """The rows of the oldest look-up, once it has ended."""
        lookup = begun[0]
        self._wait(lookup.future.done, run)
        try:
            joined = lookup.future.result()
        except CancelledError as error:  # the executor ends
            raise interrupted(self._plan_path) from error
        begun.popleft()
        if joined.num_rows:
            yield joined

    def _wait(self, enough: Callable[[], bool], run: _Run) -> None:
        while not (enough() or run.stopped.is_set()):
            run.moved.wait()
            run.moved.clear()
        run.stop_if_interrupted(self._plan_path)

    def _abandon(self, begun: Iterable[_Lookup]) -> None:
        cancelled = [lookup.future.cancel() or lookup.future.done() for lookup in begun]
        if not all(cancelled):
            self._index.interrupt()

    # ------------------------------------------------------------------------------------------------ a look-up

    def _lookup(self, probe: pa.RecordBatch) -> _Lookup:
        columns = [probe.column(i) for i in self._keys]
        rows = _rows_without_null(columns)
        if rows is not None:
            whole = arrow_positions(rows)
            columns = [column.take(whole) for column in columns]
        keys = batch_of(columns, len(columns[0]), self._key_schema)
        return _Lookup(probe=probe, keys=keys, rows=rows, size=probe.num_rows * self._width)

    def _looked_up(self, lookup: _Lookup, run: _Run) -> pa.RecordBatch:
        """The joined rows of a look-up. Any thread may run it, so that the thread that hands the rows out has little
        else to do.
        """
        matches = self._attempts(lookup, run)
        self._check_matches(matches, lookup.keys.num_rows)
        joined = self._joined(lookup, matches)
        lookup.size = batch_bytes(joined)
        self._width = max(lookup.size // lookup.probe.num_rows, self._width // _NARROWER)
        return joined

    def _attempts(self, lookup: _Lookup, run: _Run) -> Matches:
        """The matches of a look-up, which is made again where that may help."""
        while True:
            run.stop_if_interrupted(self._plan_path)
            lookup.attempts += 1
            try:
                return self._index.lookup(lookup.keys)
            except (InternalError, SplitError):
                raise
            except Exception as error:
                if lookup.attempts > self._retries.count or not self._index.retryable(error):
                    raise self._failed(lookup, error) from error
            self._pause(run.stopped, self._retries.pause(lookup.attempts))

    def _failed(self, lookup: _Lookup, error: Exception) -> ExecutionError:
        attempts = f" after {lookup.attempts} attempts" if lookup.attempts > 1 else ""
        text = next(iter(str(error).strip().splitlines()), type(error).__name__)
        message = f"looking up {key_range(lookup.keys)} in index {self._index.name!r} failed{attempts}: {text}"
        return ExecutionError(f"{self._plan_path}: {message}" if self._plan_path else message, reason="LOOKUP_FAILED")

    # ------------------------------------------------------------------------------------------------- the join

    def _joined(self, lookup: _Lookup, matches: Matches) -> pa.RecordBatch:
        probe, columns = lookup.probe, matches.columns
        rows = matches.rows if lookup.rows is None else lookup.rows[matches.rows]
        if self._left:
            rows, columns = _with_the_unmatched(rows, columns, probe.num_rows)
        if not is_every(rows, probe.num_rows):
            probe = taken(probe, arrow_positions(rows))
        return batch_of([*probe.columns, *columns.columns], len(rows), self.schema)

    def _no_matches(self) -> Matches:
        return Matches(rows=np.empty(0, np.int64), columns=joined([], self._index.schema))

    # -------------------------------------------------------------------------------------------------- checks

    def _check_types(self, probe: pa.Schema) -> None:
        index = self._index
        types = [probe.field(i).type for i in self._keys]
        if not types or types != list(index.key_types):
            raise InternalError(
                f"{self._plan_path}: keys {types} for index {index.name!r} of keys {list(index.key_types)}"
            )
        if self.schema.types != [*probe.types, *index.schema.types]:
            raise InternalError(f"{self._plan_path}: a join of {probe.types} and {index.schema.types} as {self.schema}")
        if self._left and not all(self.schema.field(i).nullable for i in range(len(probe), len(self.schema))):
            raise InternalError(
                f"{self._plan_path}: a left join whose columns of the index are required: {self.schema}"
            )

    def _check_matches(self, matches: Matches, keys: int) -> None:
        """Check the matches of an index, which may be user code."""
        rows, columns = matches.rows, matches.columns
        ascending = not rows.size or (rows[0] >= 0 and rows[-1] < keys and not np.count_nonzero(rows[1:] < rows[:-1]))
        fits = columns.schema.equals(self._index.schema) and len(rows) == columns.num_rows
        if not (ascending and fits):
            raise InternalError(
                f"{self._plan_path}: index {self._index.name!r} broke its contract: {len(rows)} row numbers, "
                f"ascending: {ascending}, for {columns.num_rows} rows of {columns.schema}"
            )


def _heavy(begun: Iterable[_Lookup]) -> bool:
    return sum(lookup.size for lookup in begun) > WAITING_BYTES


def _until_it_breaks(stream: Stream, broken: list[Exception]) -> Iterator[pa.RecordBatch]:
    """The stream's batches. An exception of the stream is put into `broken`, so that the rows before it can be handed
    out first.
    """
    try:
        yield from stream
    except Exception as error:  # noqa: BLE001 - raised after these rows
        broken.append(error)


def _rows_without_null(columns: Sequence[pa.Array]) -> RowNumbers | None:
    """The numbers of the rows without a null in these columns; None where all rows are."""
    present: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None
    for column in columns:
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            present = valid if present is None else present & valid
    return None if present is None else np.flatnonzero(present)


def _with_the_unmatched(rows: RowNumbers, columns: pa.RecordBatch, count: int) -> tuple[RowNumbers, pa.RecordBatch]:
    """The matches, with each of `count` rows at least once: rows without a match beside nulls."""
    matches = np.bincount(rows, minlength=count)
    if matches.all():
        return rows, columns
    all_rows = np.repeat(np.arange(count), np.maximum(matches, 1))
    matched = matches[all_rows] > 0
    positions = np.cumsum(matched) - 1
    return all_rows, columns.take(pa.array(positions, mask=~matched))
