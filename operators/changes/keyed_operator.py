"""What operators share that answer for each key from all its rows: aggregates, windows, first rows.

A key that is touched is answered anew; what is given out is the difference to what was given out for it before. State:
what the answer is made from, which is the operator's own matter, and all that was given out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...proto.errors import InternalError
from ..core.operator import StateReader, StateWriter
from .agenda import Agenda
from .change_operator import ChangeOperator
from .kept.arrangement import Arrangement
from .kept.found import Found, History
from .kept.history import again
from .kept.state_format import load_arrangement, save_arrangement
from .values.change import Change, Numbers, Rounds, by_rounds, constant_rounds, ones
from .values.consolidate import consolidate
from .values.rows import Rows
from .values.value_columns import Index


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What holds for keys: rows, with weights above 0, each of the key number `asked`. `history` says when something
    came in that these answers are made from, or may be at a later time: of which key, and its time.
    """

    asked: Index
    rows: Rows
    weights: Numbers
    history: History


class Keyed(ChangeOperator):
    """Rows of `input_schema` by their columns `key`; gives out the key's columns, then what is answered.

    `always` is for an operator without a key: it answers even before there is a row. Weights may be below zero
    while an epoch goes on; where the sum of a key's rows is, when it has ended, that is an error of the input.
    """

    def __init__(
        self, input_schema: pa.Schema, key: Sequence[int], schema: pa.Schema, *, depth: int, always: bool = False
    ) -> None:
        self.schema = schema
        self._input_schema = input_schema
        self._key = tuple(key)
        self._depth = depth
        self._given = Arrangement(schema.types, range(len(self._key)), depth=depth)
        self._agenda: Agenda[Change | Rows] = Agenda()
        """Changes, and keys that are to be answered again."""
        if always:
            if self._key:
                raise InternalError("only an operator without a key answers before there is a row")
            self._agenda.add((0,) * depth, Rows((), 1))

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - there is one input
        if len(change):
            for rounds, which in by_rounds(change.rounds):
                self._agenda.add(rounds, change if which is None else change.take(which))
        return ()

    def due(self) -> Rounds | None:
        return self._agenda.first()

    def decide(self, rounds: Rounds) -> Iterable[Change]:
        items = tuple(self._agenda.take(rounds))
        if not items:
            return ()
        parts = [item for item in items if isinstance(item, Change)]
        keys = [item.rows.select(self._key) if isinstance(item, Change) else item for item in items]
        touched = _different(Rows.concat(keys))
        if parts:
            self._absorb(Change.concat(parts))
        answer = self._answer(touched, rounds)
        before = self._given.held(touched, rounds)
        if self._depth:
            self._put_down(touched, (answer.history, before.history), rounds)
        return self._differences(touched, answer, before.now, rounds)

    def save(self, state: StateWriter) -> None:
        save_arrangement(state, "given", self._given, self.schema)

    def load(self, state: StateReader) -> None:
        load_arrangement(state, "given", self._given, self.schema)
        self._agenda = Agenda()

    @property
    def touched(self) -> int:
        return self._given.touched

    @property
    def nbytes(self) -> int:
        return self._given.nbytes + self._agenda.nbytes(lambda item: item.nbytes)

    @abstractmethod
    def _absorb(self, change: Change) -> None:
        """Keep what the answers are made from."""

    @abstractmethod
    def _answer(self, keys: Rows, rounds: Rounds) -> Answer:
        """What holds for each of these different keys at this time. Rows are those behind the key's columns."""

    def _differences(self, touched: Rows, answer: Answer, old: Found, rounds: Rounds) -> Iterable[Change]:
        now = touched.take(answer.asked).beside(answer.rows)
        both = Change(Rows.concat([now, old.rows]), np.concatenate([answer.weights, -old.weights]))
        found = consolidate(both)
        if not len(found):
            return ()
        change = Change(found.rows, found.weights, constant_rounds(rounds, len(found)), consolidated=True)
        self._given.insert(change)
        return (change,)

    def _put_down(self, keys: Rows, histories: Sequence[History], rounds: Rounds) -> None:
        for later, which in again(*together(histories), rounds):
            self._agenda.add(later, keys.take(which))


def together(histories: Sequence[History]) -> History:
    asked = np.concatenate([asked for asked, _ in histories])
    return asked, tuple(np.concatenate(numbers) for numbers in zip(*(times for _, times in histories), strict=True))


def _different(rows: Rows) -> Rows:
    return consolidate(Change(rows, ones(len(rows)))).rows
