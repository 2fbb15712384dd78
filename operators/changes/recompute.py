"""Recompute: a statement over all rows of its inputs, run again when they have changed. It gives out the difference.

The result is always right, and a run costs as much as all rows that the statement reads. Recompute is for relations
without an operator that works on changes. Confluent: the statement reads rows in canonical order. State: the rows of
all inputs, and the rows given out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ..core.operator import StateReader
from ..core.room import need_room
from .agenda import Agenda
from .change_operator import ChangeOperator, Kept
from .kept.arrangement import Arrangement
from .kept.chosen_entries import ChosenEntries
from .kept.history import again, counts_at
from .kept.matching_entries import MatchingEntries
from .kept.present import present
from .values.change import Change, Rounds, by_rounds, constant_rounds
from .values.consolidate import consolidate
from .values.evaluator import Evaluator
from .values.order_codes import canonical_orders
from .values.rows import Rows

_EVERY: Final = Rows((), 1)
"""The key of all rows."""


class Recompute(ChangeOperator):
    """The operator. `evaluate` reads the rows of each input, with all copies. With `always` it has an answer before
    there is a row.
    """

    def __init__(
        self,
        inputs: Sequence[pa.Schema],
        schema: pa.Schema,
        evaluate: Evaluator,
        *,
        plan_path: str,
        depth: int = 0,
        always: bool = True,
    ) -> None:
        self.schema = schema
        self._schemas = tuple(inputs)
        self._plan_path = plan_path
        self._evaluate = evaluate
        self._depth = depth
        self._inputs = [Arrangement(input_schema.types, (), depth=depth) for input_schema in inputs]
        self._given = Arrangement(schema.types, (), depth=depth)
        self._agenda: Agenda[tuple[int, Change] | None] = Agenda()
        if always:
            self._agenda.add((0,) * depth, None)

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        if len(change):
            for rounds, which in by_rounds(change.rounds):
                self._agenda.add(rounds, (port, change if which is None else change.take(which)))
        return ()

    def due(self) -> Rounds | None:
        return self._agenda.first()

    def decide(self, rounds: Rounds) -> Iterable[Change]:
        items = tuple(self._agenda.take(rounds))
        if not items:
            return ()
        for item in items:
            if item is not None:
                port, change = item
                self._inputs[port].insert(change)
        kept = [*self._inputs, self._given]
        need_room(sum(arrangement.nbytes for arrangement in kept))
        everything = [arrangement.chosen(_EVERY) for arrangement in self._inputs]
        before = self._given.find(_EVERY)
        if self._depth:
            self._put_down((*everything, before), rounds)
        now = self._evaluated(everything, rounds)
        counted = counts_at(before.rounds, rounds)
        old = before if counted is None else before.take(np.flatnonzero(counted))
        weights = np.concatenate([np.ones(len(now), dtype=np.int64), -old.weights])
        difference = consolidate(Change(Rows.concat([now, old.rows]), weights))
        if not len(difference):
            return ()
        emitted = Change(difference.rows, difference.weights, constant_rounds(rounds, len(difference)))
        self._given.insert(emitted)
        return (emitted,)

    def kept(self) -> Iterable[Kept]:
        for port, (arrangement, schema) in enumerate(zip(self._inputs, self._schemas, strict=True)):
            yield Kept(f"input-{port}", arrangement, schema)
        yield Kept("given", self._given, self.schema)

    def load(self, state: StateReader) -> None:
        super().load(state)
        self._agenda = Agenda()

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._agenda.nbytes(lambda item: 0 if item is None else item[1].nbytes)

    def _evaluated(self, everything: Sequence[ChosenEntries], rounds: Rounds) -> Rows:
        inputs = []
        for history, schema in zip(everything, self._schemas, strict=True):
            there = present(history, rounds, canonical_orders(len(schema)))
            rows, _ = there.with_copies(f"{self._plan_path}: Recompute")
            inputs.append(rows.to_batch(schema))
        return Rows.of_batch(self._evaluate(*inputs))

    def _put_down(self, histories: Sequence[ChosenEntries | MatchingEntries], rounds: Rounds) -> None:
        asked = np.concatenate([history.asked for history in histories])
        times = tuple(np.concatenate(n) for n in zip(*(history.rounds for history in histories), strict=True))
        for later, _ in again(asked, times, rounds):
            self._agenda.add(later, None)
