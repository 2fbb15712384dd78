"""The rounds of a loop and its limits: rows that have come back wait for their round, are part of X, or are beyond the
limit of rounds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, time
from typing import Final

import numpy as np
import pyarrow as pa

from ....proto.errors import ExecutionError
from ...core.operator import StateReader, StateWriter
from ..agenda import Agenda
from ..kept.arrangement import Arrangement
from ..kept.history import counts_at
from ..kept.state_format import check_version, load_arrangement, save_arrangement
from ..values.change import Change, Numbers, Rounds, all_one, by_rounds
from ..values.consolidate import consolidate
from .network_graph import Limits, OnLimit
from .network_statistics import LAST_ROUNDS

VERSION: Final = 1
_SMALL_PARTS: Final = 64


@dataclass(slots=True)
class RoundCounts:
    """Counts of a loop's rounds, over all its epochs."""

    rounds: int = 0
    rows: int = 0
    most_rows: int = 0
    last_rows: deque[int] = field(default_factory=lambda: deque(maxlen=LAST_ROUNDS))

    def add(self, rows: int) -> None:
        self.rounds += 1
        self.rows += rows
        self.most_rows = max(self.most_rows, rows)
        self.last_rows.append(rows)


class Heap:
    """A heap of changes that are added up and taken all at once. Many small changes are put together on the way."""

    def __init__(self) -> None:
        self._large: list[Change] = []
        self._small: list[Change] = []

    def add(self, change: Change) -> None:
        self._small.append(change)
        if len(self._small) == _SMALL_PARTS:
            newest = Change.concat(self._small)
            self._small = []
            while self._large and len(self._large[-1]) <= 2 * len(newest):
                newest = Change.concat([self._large.pop(), newest])
            self._large.append(newest)

    @property
    def nbytes(self) -> int:
        return sum(change.nbytes for change in (*self._large, *self._small))

    def take(self) -> Change | None:
        parts = [*self._large, *self._small]
        self._large, self._small = [], []
        return Change.concat(parts) if parts else None


class LoopRounds:
    """The rows of one loop outside its body, on every channel. Times here are the rounds of the loops around it and
    then, counted or not, this loop's round.
    """

    def __init__(
        self, name: str, schema: pa.Schema, limits: Limits, *, channels: int, outer: int, counted: bool
    ) -> None:
        self.counts = RoundCounts()
        self.healthy = True
        self.begun = 0.0
        self.name = name
        self._schema = schema
        self._limits = limits
        self._counted = counted
        self._round = 0
        self._pending: list[Agenda[Change]] = [Agenda() for _ in range(channels)]
        self._changed = [Heap() for _ in range(channels)]
        whole = range(len(schema))
        self._parked = [Arrangement(schema.types, whole, depth=outer + counted) for _ in range(channels)]
        self._total = 0
        self._latest: Rounds = (0,) * (outer + 1)
        self._deadline: float | None = None

    def begin(self) -> None:
        """Begin a new epoch, or a new round of the loop around this one."""
        self.begun = time()
        if not self._counted:
            self._round = 0
        if self._limits.seconds is not None:
            self._deadline = monotonic() + self._limits.seconds

    def enter(self, channel: int, change: Change) -> None:
        """Add rows that enter the loop. They exist from round 1 on."""
        if self._counted:
            rounds = (*change.rounds, np.ones(len(change), dtype=np.int64))
            change = Change(change.rows, change.weights, rounds, change.consolidated)
        self._put(channel, change, 1)

    def come_back(self, channel: int, change: Change) -> None:
        """Add rows of the body's answer at a round. They exist from the next round on."""
        if self._counted:
            *outer, rounds = change.rounds
            change = Change(change.rows, change.weights, (*outer, rounds + 1), change.consolidated)
        self._put(channel, change, self._round + 1)

    def next_time(self, due: Rounds | None) -> Rounds | None:
        """The earliest time of rows that came back or of changes that the body has due."""
        times = [time for agenda in self._pending if (time := agenda.first()) is not None]
        if due is not None:
            times.append(due if self._counted else (*due, self._round))
        return min(times, default=None)

    def hand_in(self, time: Rounds) -> list[Change | None]:
        """Make the rows of this time a part of X. Return those that the body has to see, on each channel,
        consolidated.
        """
        self._round = time[-1]
        outer = time[:-1]
        inside = time if self._counted else outer
        handed: list[Change | None] = []
        rows = 0
        for channel, agenda in enumerate(self._pending):
            change = self._together(tuple(agenda.take(time)), time)
            if change is not None:
                rows += len(change)
                self._total += sum_exactly(change.weights)
                self._changed[channel].add(change.at(outer))
                change = change.at(inside)
            handed.append(change)
        if rows:
            self._latest = tuple(map(max, self._latest, time))
        self.counts.add(rows)
        self._check_limits(time, rows)
        return [None] * len(handed) if self._is_last(time) else handed

    def settle(self, outer: Rounds | None) -> None:
        """End the rounds up to this time of the loops around the loop, which is quiet (None: nothing was released). If
        its rounds are limited, check whether X is the fixpoint.
        """
        if outer is None:
            return
        limit = self._limits
        if limit.rounds is not None and limit.on_rounds is OnLimit.ERROR:
            beyond = sum(self._parked_rows(parked, outer) for parked in self._parked)
            if beyond:
                raise self._error(
                    "LOOP_ROUNDS",
                    f"has not ended after {limit.rounds} rounds: round {limit.rounds + 1} would change "
                    f"{beyond} of its {self._total} rows (weights counted); give the loop a higher limit of rounds, "
                    "or let the loop return its rows at the limit",
                )
        if all(mine >= latest for mine, latest in zip(outer, self._latest, strict=False)):
            self._check_rows()

    def take_changed(self) -> list[Change | None]:
        """The change of X since the last call, on each channel, consolidated, without this loop's rounds."""
        taken = [heap.take() for heap in self._changed]
        with self._exact():
            return [None if change is None else consolidate(change) for change in taken]

    def overflow(self, error: OverflowError) -> ExecutionError:
        return self._error(
            "WEIGHT_OVERFLOW",
            f"cannot go on in round {self._round}, with {self._total} rows (weights counted): {error}",
        )

    def check_time(self) -> None:
        """Raise, within a round, if the loop's time is over."""
        if self._late():
            raise self._error(
                "LOOP_SECONDS",
                f"has not ended after {self._limits.seconds} seconds: the loop is in round {self._round}, with "
                f"{self._total} rows (weights counted); raise loop_seconds, or change the loop so that it ends",
            )

    def save(self, state: StateWriter) -> None:
        numbers = [str(self._total), *map(str, self._latest)]
        state.write("totals", VERSION, pa.table({"number": numbers}))
        for channel, parked in enumerate(self._parked):
            save_arrangement(state, f"{channel}/parked", parked, self._schema)

    def load(self, state: StateReader) -> None:
        version, table = state.read("totals")
        check_version(f"totals of loop {self.name!r}", version, VERSION)
        total, *latest = map(int, table.column("number").to_pylist())
        self._total, self._latest = total, tuple(latest)
        for channel, parked in enumerate(self._parked):
            load_arrangement(state, f"{channel}/parked", parked, self._schema)

    @property
    def nbytes(self) -> int:
        waiting = sum(pending.nbytes(lambda change: change.nbytes) for pending in self._pending)
        changed = sum(heap.nbytes for heap in self._changed)
        return waiting + changed + sum(parked.nbytes for parked in self._parked)

    def _put(self, channel: int, change: Change, number: int) -> None:
        """File a change under its rounds; where they are not counted, under `number`."""
        if not len(change):
            return
        for rounds, which in by_rounds(change.rounds):
            part = change if which is None else change.take(which)
            time = rounds if self._counted else (*rounds, number)
            if self._limits.rounds is not None and time[-1] > self._limits.rounds:
                with self._exact():
                    self._parked[channel].insert(part)
            else:
                self._pending[channel].add(time, part)

    def _is_last(self, time: Rounds) -> bool:
        """True where the body's answer would be beyond the last round, and does not matter."""
        return time[-1] == self._limits.rounds and self._limits.on_rounds is OnLimit.RETURN

    def _together(self, parts: Sequence[Change], time: Rounds) -> Change | None:
        if not parts:
            return None
        self._round = time[-1]
        if len(parts) == 1 and len(parts[0]) == 1 and parts[0].weights[0]:
            return Change(parts[0].rows, parts[0].weights, consolidated=True)
        with self._exact():
            whole = Change.concat(parts)
            change = consolidate(Change(whole.rows, whole.weights, consolidated=whole.consolidated))
        return change if len(change) else None

    @contextmanager
    def _exact(self) -> Iterator[None]:
        try:
            yield
        except OverflowError as error:
            raise self.overflow(error) from error

    def _parked_rows(self, parked: Arrangement, outer: Rounds) -> int:
        """The number of rows by which X would change in the round beyond the limit."""
        if not parked.rows:
            return 0
        with self._exact():
            contents = parked.contents()
            beyond = Change(contents.rows, contents.weights)
            counted = counts_at(contents.rounds[: len(outer)], outer)
            return len(consolidate(beyond if counted is None else beyond.take(np.flatnonzero(counted))))

    def _check_limits(self, time: Rounds, rows: int) -> None:
        # Rows of an earlier epoch from after this round are in the total and not yet undone.
        if self._too_many() and all(mine >= latest for mine, latest in zip(time, self._latest, strict=True)):
            self._check_rows()
        if self._late():
            raise self._error(
                "LOOP_SECONDS",
                f"has not ended after {self._limits.seconds} seconds: round {time[-1]} changes {rows} of its "
                f"{self._total} rows (weights counted); raise loop_seconds, or change the loop so that it ends",
            )

    def _late(self) -> bool:
        return self._deadline is not None and monotonic() > self._deadline

    def _check_rows(self) -> None:
        if self._too_many():
            raise self._error(
                "LOOP_ROWS",
                f"has {self._total} rows (weights counted) after round {self._round}; its limit is {self._limits.rows}"
                ": raise loop_rows, or change the loop so that it ends",
            )

    def _too_many(self) -> bool:
        return self._limits.rows is not None and self._total > self._limits.rows

    def _error(self, reason: str, message: str) -> ExecutionError:
        self.healthy = False
        return ExecutionError(f"loop {self.name!r} {message}", reason=reason)


def sum_exactly(weights: Numbers) -> int:
    """The sum of the weights, however large it is."""
    if all_one(weights):
        return len(weights)
    largest = max(int(weights.max()), -int(weights.min()))
    if largest > (1 << 62) // len(weights):
        return sum(weights.tolist())
    return int(weights.sum())
