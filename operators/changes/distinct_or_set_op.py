"""DistinctOrSetOp: DISTINCT and the set operations. A row's weight is a function of its weights in each input.

Confluent: the inputs' order and cuts have no influence. State: for each different row one number an input, at each time
at which it changed. Inside loops that count rounds there is one more number, the weight that was given out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

import numpy as np
import pyarrow as pa

from ..core.room import need_room
from .agenda import Agenda
from .change_operator import ChangeOperator, Kept
from .event_time.floor import Floor
from .event_time.forgetting import Forgetting
from .event_time.window_closing import Closing, after_closing
from .kept.arrangement import Arrangement
from .kept.dense_counts import DenseCounts
from .kept.history import again
from .kept.matching_entries import MatchingEntries
from .kept.present import sums_at
from .kept.recent_entries import AT_ONCE
from .values.change import Change, Numbers, Rounds, by_rounds, constant_rounds
from .values.consolidate import Entries, added, consolidated, group_starts, without_zeros
from .values.rows import Rows
from .values.scattered_column import has_wide
from .values.value_columns import Index, Mask

VERSION: Final = 2
"""In version 1 the rows that were given out were a table of their own."""

_FEW: Final = 8
"""Up to so many rows of a single loop are decided one by one, which costs less than dozens of steps over arrays."""
_LARGE: Final = 1 << 31
"""A row with so many copies is decided with all others."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


class Weighing(enum.Enum):
    """The number of copies of a row in the result, by the row's copies in the first input and in the others."""

    DISTINCT = "distinct"
    """Once, if the row is in any input."""
    INTERSECT_ANY = "intersect_any"
    """Once, if the row is in the first input and in any other."""
    INTERSECT_EACH = "intersect_each"
    """Once, if the row is in all inputs."""
    INTERSECT_ALL = "intersect_all"
    """As often as in the input that has the row least often."""
    EXCEPT_ANY = "except_any"
    """Once, if the row is in the first input and in no other."""
    EXCEPT_EACH = "except_each"
    """As often as in the first input, if the row is not in all others."""
    EXCEPT_ALL = "except_all"
    """The copies in the first input less the copies in all others together, if that is above zero."""


class DistinctOrSetOp(ChangeOperator):
    """The operator. It gives rows of all `inputs` with the weight that `weighing` gives them. `once` says that there is
    only one epoch, and that state is never saved, so that state need not be the rows themselves. Rows below
    the `floor` are let go. With `closing`, rows are those of windows, whose watermark is behind that of the input.
    """

    def __init__(
        self,
        schema: pa.Schema,
        weighing: Weighing,
        *,
        inputs: int = 1,
        depth: int = 0,
        once: bool = False,
        closing: Closing | None = None,
        floor: Floor | None = None,
    ) -> None:
        self.schema = schema
        self._weighing = weighing
        # At a time that is decided no input's sum is below zero, so the sum over all inputs tells as much as each one.
        self._inputs = 1 if weighing is Weighing.DISTINCT else inputs
        self._depth = depth
        self._densely_counted = 0
        whole = range(len(schema))
        self._kept = Arrangement(schema.types, whole, depth=depth, width=self._inputs + bool(depth))
        self._agenda: Agenda[tuple[Rows, Numbers]] = Agenda()
        self._deciding = 0
        """The bytes of rows that are taken from the agenda and not decided yet."""
        self._dense_counts = DenseCounts() if once and not depth and weighing is Weighing.DISTINCT else None
        """The state in place of the received rows, as long as it can count them."""
        self._closing = closing
        if floor is not None:
            self.forgetting = (Forgetting((self._kept, floor.column), floor=floor),)

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        if not len(change):
            return ()
        numbers = change.weights
        if self._inputs > 1:
            numbers = np.zeros((len(change), self._inputs), dtype=np.int64)
            numbers[:, port] = change.weights
        for rounds, which in by_rounds(change.rounds):
            part = (change.rows, numbers) if which is None else (change.rows.take(which), numbers[which])
            self._agenda.add(rounds, part)
        return ()

    def due(self) -> Rounds | None:
        return self._agenda.first()

    def decide(self, rounds: Rounds) -> Iterable[Change]:
        parts = list(self._agenda.take(rounds))
        if not parts:
            return ()
        # What portions of wide rows change adds up. Rows with very many copies may cancel out, so these come together.
        if not any(has_wide(rows.columns, len(rows)) for rows, _ in parts) or any(map(_is_large, parts)):
            return self._decided_changes(*_joined(parts), rounds)
        return self._in_portions(parts, rounds)

    def _in_portions(self, parts: list[tuple[Rows, Numbers]], rounds: Rounds) -> Iterator[Change]:
        """The changes of an epoch's parts, some megabytes at a time. The list is emptied."""
        self._deciding = sum(rows.nbytes for rows, _ in parts)
        parts.reverse()
        while parts:
            some, size = [parts.pop()], 0
            while parts and (size := size + parts[-1][0].nbytes) < AT_ONCE:
                some.append(parts.pop())
            rows, numbers = _joined(some)
            some.clear()
            size = rows.nbytes
            need_room(size)
            yield from self._decided_changes(rows, numbers, rounds)
            del rows
            self._deciding = max(self._deciding - size, 0) if parts else 0

    def _decided_changes(self, rows: Rows, numbers: Numbers, rounds: Rounds) -> Iterable[Change]:
        if self._dense_counts is not None:
            change = self._dense_counts.add(rows, numbers)
            if change is not None:
                self._densely_counted += len(rows)
                return (change,)
            self._leave_dense_counts(self._dense_counts)
        touched = _together(rows, numbers)
        weights = self._decided_at(touched, rounds) if self._depth else self._decided(touched)
        count = int(np.count_nonzero(weights))
        if not count:
            return ()
        rows, hashes = touched.rows, touched.key_hashes
        if count < len(weights):
            changed = weights.nonzero()[0]
            rows, hashes, weights = rows.take(changed), hashes.take(changed), weights.take(changed)
        return (Change(rows.hashed(hashes), weights, constant_rounds(rounds, count), consolidated=True),)

    def watermark(self, watermark: int | None) -> int | None:
        return watermark if self._closing is None else after_closing(self._closing, watermark)

    def kept(self) -> Iterable[Kept]:
        yield Kept("received", self._kept, self.schema, VERSION)

    @property
    def touched(self) -> int:
        return self._densely_counted + super().touched

    @property
    def nbytes(self) -> int:
        dense_counts = 0 if self._dense_counts is None else self._dense_counts.nbytes
        waiting = self._agenda.nbytes(lambda item: item[0].nbytes + int(item[1].nbytes))
        return dense_counts + super().nbytes + waiting + self._deciding

    def _decided(self, touched: Entries) -> Numbers:
        """The changes of rows' weights, where there are no rounds."""
        old = sums_at(self._kept.held(touched.rows, (), rows=False).now, (), len(touched))
        some = without_zeros(touched)
        self._kept.insert_numbers(some.rows, some.weights, (), some.rows)
        return self._weights(added(old, touched.weights)) - self._weights(old)

    def _decided_at(self, touched: Entries, rounds: Rounds) -> Numbers:
        """The changes of rows' weights at this time. Rows that have to be decided again later are noted."""
        before = self._kept.find(touched.rows, rows=False)
        if len(touched) <= _FEW and self._depth == 1 and self._weighing is Weighing.DISTINCT:
            return self._decided_one_by_one(touched, before, rounds)
        new = np.zeros((len(touched), self._inputs + 1), dtype=np.int64)
        new[:, :-1] = touched.weights.reshape(len(touched), self._inputs)
        sums = new
        if len(before):
            sums = added(sums_at(before, rounds, len(touched)), new)
        weights = self._weights(sums[:, :-1]) - sums[:, -1]
        new[:, -1] = weights
        self._kept.insert_numbers(touched.rows, new, constant_rounds(rounds, len(touched)), touched.rows)
        if len(before):
            sums[:, -1] += weights
            if self._depth == 1:
                self._put_down_wrong(touched.rows, before, sums, rounds)
            else:
                self._put_down(touched.rows, before, rounds)
        return weights

    def _decided_one_by_one(self, touched: Entries, before: MatchingEntries, rounds: Rounds) -> Numbers:
        """The rest of `_decided_at` for few rows, number by number."""
        came: list[int] = touched.weights.tolist()
        sums, emitted = list(came), [0] * len(came)
        later: dict[int, dict[int, tuple[int, int]]] = {}
        entries = zip(before.asked.tolist(), before.weights.tolist(), before.rounds[0].tolist(), strict=True)
        for row, (number, out), time in entries:
            if time <= rounds[0]:
                sums[row] += number
                emitted[row] += out
            else:
                history = later.setdefault(row, {})
                before_it, out_before = history.get(time, (0, 0))
                history[time] = (before_it + number, out_before + out)
        if not _LEAST <= min(sums) <= max(sums) <= _MOST:
            raise OverflowError(f"the weights of one row sum to {max(sums, key=abs)}, which is beyond 64 bits")
        weights = [(total > 0) - out for total, out in zip(sums, emitted, strict=True)]
        new = np.array(list(zip(came, weights, strict=True)), dtype=np.int64)
        self._kept.insert_numbers(touched.rows, new, constant_rounds(rounds, len(came)), touched.rows)
        for row, history in later.items():
            total, out = sums[row], emitted[row] + weights[row]
            for time, (number, more) in sorted(history.items()):
                total, out = total + number, out + more
                if (total > 0) != out:
                    self._put_nothing_down(touched.rows, np.array((row,)), (time,))
                    break
        return np.array(weights, dtype=np.int64)

    def _leave_dense_counts(self, dense_counts: DenseCounts) -> None:
        self._dense_counts = None
        counted = dense_counts.contents()
        if counted is not None:
            self._kept.insert_numbers(*counted, ())

    def _put_down(self, rows: Rows, before: MatchingEntries, rounds: Rounds) -> None:
        for later, which in again(before.asked, before.rounds, rounds):
            self._put_nothing_down(rows, which, later)

    def _put_down_wrong(self, rows: Rows, before: MatchingEntries, sums: Numbers, rounds: Rounds) -> None:
        """Note rows to be decided again. In one loop a row is next decided again at the first later round of its
        history at which the weight that was given out is not the one that holds there now. `sums` are the rows' numbers
        at this round.
        """
        late = (before.rounds[0] > rounds[0]).nonzero()[0]
        if not len(late):
            return
        asked, numbers = before.asked.take(late), before.rounds[0].take(late)
        order = np.lexsort((numbers, asked))
        asked, numbers, late = asked.take(order), numbers.take(order), late.take(order)
        other_row = asked[1:] != asked[:-1]
        later = _running(before.weights.take(late, axis=0), other_row, sums.take(asked, axis=0))
        wrong = self._weights(later[:, :-1]) != later[:, -1]
        wrong[:-1] &= other_row | (numbers[1:] != numbers[:-1])
        at = wrong.nonzero()[0]
        if len(at):
            keys, first = np.unique(asked.take(at), return_index=True)
            for time, which in by_rounds((numbers.take(at).take(first),)):
                self._put_nothing_down(rows, keys if which is None else keys[which], time)

    def _put_nothing_down(self, rows: Rows, which: Index, time: Rounds) -> None:
        nothing = np.zeros(len(which) if self._inputs == 1 else (len(which), self._inputs), dtype=np.int64)
        self._agenda.add(time, (rows.take(which), nothing))

    def _weights(self, numbers: Numbers) -> Numbers:
        first, others = (numbers, None) if numbers.ndim == 1 else (numbers[:, 0], numbers[:, 1:])
        return _weights_of_result(self._weighing, first, others)


def _joined(parts: Sequence[tuple[Rows, Numbers]]) -> tuple[Rows, Numbers]:
    if len(parts) == 1:
        return parts[0]
    rows = [part[0] for part in parts]
    return Rows.scattered(rows) or Rows.concat(rows), np.concatenate([part[1] for part in parts])


def _is_large(part: tuple[Rows, Numbers]) -> bool:
    return bool((np.abs(part[1]) >= _LARGE).any())


def _together(rows: Rows, numbers: Numbers) -> Entries:
    """The different rows that are touched, with the numbers that came in for them: zero, for rows noted before."""
    hashes = rows.hashes()
    summed = consolidated(Entries(hashes, hashes, rows, numbers, ()), keep_zeros=True)
    return replace(summed, rows=summed.rows.hashed(summed.key_hashes))


def _running(numbers: Numbers, other_row: Mask, before: Numbers) -> Numbers:
    """The running sums of each row's numbers, from the sum `before`. `other_row` says where the numbers of a row
    end.
    """
    sums: Numbers = np.cumsum(numbers, axis=0)
    starts = group_starts(other_row)
    lengths = np.diff(np.append(starts, len(numbers)))
    sums -= np.repeat(sums[starts] - numbers[starts], lengths, axis=0)
    sums += before
    return sums


def _weights_of_result(weighing: Weighing, first: Numbers, others: Numbers | None) -> Numbers:
    """The weights of rows that have `first` copies in the first input and `others` copies in each other one."""
    there: Mask = first > 0
    if weighing is Weighing.DISTINCT:
        return there.astype(np.int64)
    if others is None:
        others = np.empty((len(first), 0), dtype=np.int64)
    match weighing:
        case Weighing.INTERSECT_ANY:
            there &= (others > 0).any(axis=1)
        case Weighing.INTERSECT_EACH:
            there &= (others > 0).all(axis=1)
        case Weighing.EXCEPT_ANY:
            there &= (others <= 0).all(axis=1)
        case Weighing.EXCEPT_EACH:
            kept: Numbers = np.where((others > 0).all(axis=1), 0, np.maximum(first, 0))
            return kept
        case Weighing.INTERSECT_ALL:
            weights: Numbers = np.maximum(np.minimum(first, others.min(axis=1, initial=np.iinfo(np.int64).max)), 0)
            return weights
        case Weighing.EXCEPT_ALL:
            left: Numbers = np.maximum(first, 0)
            for other in others.T:  # one by one: their sum may be beyond 64 bits
                left = np.maximum(left - np.maximum(other, 0), 0)
            return left
        case _:
            assert_never(weighing)
    return there.astype(np.int64)
