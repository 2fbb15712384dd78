"""Weigh: what a row's weight becomes, given its weights in each input: DISTINCT and the set operations.

Confluent: the inputs' order and cuts do not enter. State: for each different row one number an input, at each time
at which it changed; inside loops that count rounds also what was given out.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import assert_never

import numpy as np
import pyarrow as pa

from ..operator import StateReader, StateWriter
from .agenda import Agenda
from .arrangement import Arrangement, Found
from .change import Change, Numbers, Rounds, by_rounds, constant_rounds
from .columns import Index, Mask
from .consolidate import Entries, added, consolidated, without_zeros
from .history import again
from .operator import ChangeOperator
from .present import sums_at
from .rows import Rows
from .state import load_arrangement, save_arrangement


class Weighing(enum.Enum):
    """How often a row is there, by how often it is in the first input and in the others."""

    DISTINCT = "distinct"
    """Once, if it is in any."""
    INTERSECT_ANY = "intersect_any"
    """Once, if it is in the first and in any other."""
    INTERSECT_EACH = "intersect_each"
    """Once, if it is in all."""
    INTERSECT_ALL = "intersect_all"
    """As often as in the input where it is least often."""
    EXCEPT_ANY = "except_any"
    """Once, if it is in the first and in no other."""
    EXCEPT_EACH = "except_each"
    """As often as in the first, if it is not in all others."""
    EXCEPT_ALL = "except_all"
    """As often as it is more often in the first than in all others together."""


class Weigh(ChangeOperator):
    """Rows of all `inputs` with the weight that `weighing` gives them."""

    def __init__(self, schema: pa.Schema, weighing: Weighing, *, inputs: int = 1, depth: int = 0) -> None:
        self.schema = schema
        self._weighing = weighing
        # At a time that is decided no sum of an input is below zero, so that of all inputs tells as much as each one.
        self._inputs = 1 if weighing is Weighing.DISTINCT else inputs
        self._depth = depth
        whole = range(len(schema))
        self._received = Arrangement(schema.types, whole, depth=depth, width=self._inputs)
        self._given = Arrangement(schema.types, whole, depth=depth)
        self._agenda: Agenda[tuple[Rows, Numbers]] = Agenda()

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
        parts = tuple(self._agenda.take(rounds))
        if not parts:
            return ()
        touched = self._together(parts)
        before = self._received.find(touched.rows, touched.key_hashes, rows=False)
        new = touched.weights
        if len(before):
            old = sums_at(before, rounds, len(touched))
            new = added(old, new)
        self._insert(touched, rounds)
        if self._depth:
            given = self._given.find(touched.rows, touched.key_hashes, rows=False)
            weights = self._weights(new) - sums_at(given, rounds, len(touched))
            if self._depth == 1:
                self._put_down_wrong(touched.rows, before, given, new, rounds)
            else:
                self._put_down(touched.rows, (before, given), rounds)
        else:
            weights = self._weights(new)
            if len(before):
                weights -= self._weights(old)
        count = int(np.count_nonzero(weights))
        if not count:
            return ()
        rows, hashes = touched.rows, touched.key_hashes
        if count < len(weights):
            changed = weights.nonzero()[0]
            rows, hashes, weights = rows.take(changed), hashes.take(changed), weights.take(changed)
        change = Change(rows.hashed(hashes), weights, constant_rounds(rounds, count), consolidated=True)
        if self._depth:
            self._given.insert(change, hashes)
        return (change,)

    def save(self, state: StateWriter) -> None:
        save_arrangement(state, "received", self._received, self.schema)
        save_arrangement(state, "given", self._given, self.schema)

    def load(self, state: StateReader) -> None:
        load_arrangement(state, "received", self._received, self.schema)
        load_arrangement(state, "given", self._given, self.schema)

    @property
    def touched(self) -> int:
        return self._received.touched + self._given.touched

    @property
    def nbytes(self) -> int:
        waiting = self._agenda.nbytes(lambda item: item[0].nbytes + int(item[1].nbytes))
        return self._received.nbytes + self._given.nbytes + waiting

    def _insert(self, touched: Entries, rounds: Rounds) -> None:
        if self._depth:
            times = constant_rounds(rounds, len(touched))
            self._received.insert_numbers(touched.rows, touched.weights, times, touched.key_hashes)
        else:
            self._received.touched += len(touched)
            self._received.insert_entries(without_zeros(touched))

    def _together(self, parts: tuple[tuple[Rows, Numbers], ...]) -> Entries:
        """The different rows that are touched, with what came in for them: nothing, for those put down before."""
        rows, numbers = parts[0]
        if len(parts) > 1:
            rows = Rows.concat([part[0] for part in parts])
            numbers = np.concatenate([part[1] for part in parts])
        hashes = rows.hashes()
        return consolidated(Entries(hashes, hashes, rows, numbers, ()), keep_zeros=True)

    def _put_down(self, rows: Rows, histories: tuple[Found, ...], rounds: Rounds) -> None:
        asked = np.concatenate([history.asked for history in histories])
        times = tuple(np.concatenate(n) for n in zip(*(history.rounds for history in histories), strict=True))
        for later, which in again(asked, times, rounds):
            self._put_nothing_down(rows, which, later)

    def _put_down_wrong(self, rows: Rows, before: Found, given: Found, new: Numbers, rounds: Rounds) -> None:
        """In one loop it is known when a row is next to be decided again: at the first later round of its history at
        which what was given out is not what holds there now. `new` is what holds at this one.
        """
        numbers = np.concatenate([before.rounds[0], given.rounds[0]])
        late = np.flatnonzero(numbers > rounds[0])
        if not len(late):
            return
        asked, numbers = np.concatenate([before.asked, given.asked])[late], numbers[late]
        order = np.lexsort((numbers, asked))
        asked, numbers, late = asked[order], numbers[order], late[order]
        nothing = np.zeros((len(given), *before.weights.shape[1:]), dtype=np.int64)
        other_row = asked[1:] != asked[:-1]
        held = _running(np.concatenate([before.weights, nothing])[late], other_row, new[asked])
        told = np.concatenate([np.zeros(len(before), dtype=np.int64), given.weights])[late]
        told = _running(told, other_row, self._weights(new)[asked])
        wrong = self._weights(held) != told
        wrong[:-1] &= other_row | (numbers[1:] != numbers[:-1])
        at = np.flatnonzero(wrong)
        if len(at):
            keys, first = np.unique(asked[at], return_index=True)
            for later, which in by_rounds((numbers[at][first],)):
                self._put_nothing_down(rows, keys if which is None else keys[which], later)

    def _put_nothing_down(self, rows: Rows, which: Index, time: Rounds) -> None:
        nothing = np.zeros(len(which) if self._inputs == 1 else (len(which), self._inputs), dtype=np.int64)
        self._agenda.add(time, (rows.take(which), nothing))

    def _weights(self, numbers: Numbers) -> Numbers:
        first, others = (numbers, None) if self._inputs == 1 else (numbers[:, 0], numbers[:, 1:])
        return _weighed(self._weighing, first, others)


def _running(numbers: Numbers, other_row: Mask, before: Numbers) -> Numbers:
    """The sum of each row's numbers up to each of them, from what it was `before`; `other_row` says where rows end."""
    sums: Numbers = np.cumsum(numbers, axis=0)
    starts = np.concatenate([[0], np.flatnonzero(other_row) + 1])
    lengths = np.diff(np.append(starts, len(numbers)))
    sums -= np.repeat(sums[starts] - numbers[starts], lengths, axis=0)
    sums += before
    return sums


def _weighed(weighing: Weighing, first: Numbers, others: Numbers | None) -> Numbers:
    """The weights of rows that are `first` times in the first input and `others` times in each other one."""
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
            left: Numbers = np.maximum(first - np.maximum(others, 0).sum(axis=1), 0)
            return left
        case _:
            assert_never(weighing)
    return there.astype(np.int64)
