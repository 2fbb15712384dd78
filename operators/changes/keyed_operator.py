"""The base of operators that compute an answer for each key from all rows of the key: aggregates, windows, first
rows.

The operator answers a touched key anew, and gives out the difference to the key's last answer. State: the data that
answers are made from, in the operator's own form, and all answers that were given out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ...proto.errors import InternalError
from ..core.operator import StateReader
from ..core.room import need_room
from ..core.wide_rows import PassingRows
from .agenda import Agenda
from .change_operator import ChangeOperator, Kept
from .event_time.floor import Floor
from .event_time.forgetting import Forgetting
from .kept.arrangement import Arrangement
from .kept.history import again
from .kept.matching_entries import History, MatchingEntries
from .kept.recent_entries import AT_ONCE
from .values.change import Change, Numbers, Rounds, by_rounds, constant_rounds, has_large_weights, ones
from .values.consolidate import all_different, consolidate
from .values.portions import portions_with_room
from .values.rows import Rows
from .values.scattered_column import has_wide
from .values.value_columns import Index

_FREED: Final = PassingRows(4 << 20)
_COPIES: Final = 2
"""The copies of a key's rows that are in memory while they are put in order."""


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """The answers for keys: rows, with weights above 0, each of the key number `asked`. `history` has the key and the
    time of each entry that these answers, or answers at a later time, are made from.
    """

    asked: Index
    rows: Rows
    weights: Numbers
    history: History


class Keyed(ChangeOperator):
    """An operator on rows of `input_schema` by their columns `key`. It gives out the key's columns, then the
    answer's.

    `always` is for an operator without a key: it has an answer even before there is a row. Weights may be below zero
    while an epoch goes on. A row whose total is below zero at the end of an epoch is an error of the input.
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
        self._deciding = 0
        """The bytes of changes that are taken from the agenda and not kept yet."""
        if always:
            if self._key:
                raise InternalError("only an operator without a key can give a result before its first row")
            self._agenda.add((0,) * depth, Rows((), 1))

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - there is one input
        if len(change):
            for rounds, which in by_rounds(change.rounds):
                self._agenda.add(rounds, change if which is None else change.take(which))
        return ()

    def due(self) -> Rounds | None:
        return self._agenda.first()

    def decide(self, rounds: Rounds) -> Iterator[Change]:
        items = list(self._agenda.take(rounds))
        if not items:
            return
        touched = self._touched(items)
        parts = [item for item in items if isinstance(item, Change)]
        items.clear()  # whose rows may be long
        held = sum(keys.nbytes for keys in touched)  # wide keys are those of the changes, and keep them in memory
        self._absorb_all(parts, held)
        while touched:
            keys = touched.pop()
            for some in self._portions(keys):
                answer = self._answer(some, rounds)
                before = self._given.held(some, rounds)
                if self._depth:
                    self._put_down(some, (answer.history, before.history), rounds)
                yield from self._differences(some, answer, before.now, rounds)
            self._deciding -= keys.nbytes

    def _absorb_all(self, parts: list[Change], held: int = 0) -> None:
        """Absorb the changes of the list, which is emptied, while `held` bytes of their keys stay in memory."""
        self._deciding = max(held, sum(part.nbytes for part in parts))
        for change in _together(parts):
            size = change.nbytes
            need_room(size)
            _FREED.add_bytes(change.rows.long_bytes)  # numbers are fast to take again only from kept memory
            self._absorb(change)
            del change
            self._deciding = max(self._deciding - size, held) if parts else held

    def kept(self) -> Iterable[Kept]:
        yield Kept("given", self._given, self.schema)

    def load(self, state: StateReader) -> None:
        super().load(state)
        self._agenda, self._deciding = Agenda(), 0

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._deciding + self._agenda.nbytes(lambda item: item.nbytes)

    def _touched(self, items: Sequence[Change | Rows]) -> list[Rows]:
        """The different keys of the items: first of each one, because all rows may have few keys. Wide keys that are
        all different stay in the items' rows.
        """
        keys = [item.rows.select(self._key) if isinstance(item, Change) else item for item in items]
        if len(keys) > 1:
            keys = list(map(_different, keys))
            together = Rows.scattered(keys)
            if together is None:
                keys = [Rows.concat(keys)]
            elif all_different(together.hashes()):
                return keys[::-1]
            else:
                keys = [together]
        return [_different(keys[0])]

    @abstractmethod
    def _absorb(self, change: Change) -> None:
        """Keep the data that answers are made from."""

    def _portions(self, keys: Rows) -> Iterable[Rows]:
        """The keys, as many at a time as are answered together."""
        sizes = self._sizes(keys)
        return (keys,) if sizes is None else map(keys.take, portions_with_room(sizes, _COPIES))

    def _sizes(self, keys: Rows) -> Numbers | None:
        """About the bytes of rows of each key that its answer is made from; None where they are few."""
        return np.full(len(keys), keys.nbytes // len(keys)) if has_wide(keys.columns, len(keys)) else None

    @abstractmethod
    def _answer(self, keys: Rows, rounds: Rounds) -> Answer:
        """The answer for each of these different keys at this time: rows of the columns behind the key's."""

    def _differences(self, touched: Rows, answer: Answer, old: MatchingEntries, rounds: Rounds) -> Iterable[Change]:
        now = touched.take(answer.asked).beside(answer.rows)
        difference = consolidate(Change.scattered([Change(now, answer.weights), Change(old.rows, -old.weights)]))
        if not len(difference):
            return ()
        change = Change(
            difference.rows, difference.weights, constant_rounds(rounds, len(difference)), consolidated=True
        )
        size = change.rows.long_bytes  # which nobody else counts yet
        self._deciding += size
        self._given.insert(change)
        self._deciding -= size
        return (change,)

    def _put_down(self, keys: Rows, histories: Sequence[History], rounds: Rounds) -> None:
        for later, which in again(*together(histories), rounds):
            self._agenda.add(later, keys.take(which))


class KeyedRows(Keyed):
    """A keyed operator that makes its answers from `rows`: all rows of the keys, which it keeps. Keys below the `floor`
    are let go; its column is a number of the key's columns.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        key: Sequence[int],
        schema: pa.Schema,
        rows: Arrangement,
        *,
        depth: int,
        always: bool = False,
        floor: Floor | None = None,
    ) -> None:
        super().__init__(input_schema, key, schema, depth=depth, always=always)
        self._rows = rows
        if floor is not None:
            kept = (self._given, floor.column), (rows, self._key[floor.column])
            self.forgetting = (Forgetting(*kept, floor=floor),)

    def kept(self) -> Iterable[Kept]:
        yield from super().kept()
        yield Kept("rows", self._rows, self._input_schema)

    def _absorb(self, change: Change) -> None:
        self._rows.insert(change)


def together(histories: Sequence[History]) -> History:
    asked = np.concatenate([asked for asked, _ in histories])
    return asked, tuple(np.concatenate(numbers) for numbers in zip(*(times for _, times in histories), strict=True))


def _together(parts: list[Change]) -> Iterator[Change]:
    """The changes of the list, as many in one as are kept at once. The list is emptied. Rows with very many copies may
    cancel out, so these come with all others.
    """
    parts.reverse()
    bound = None if any(map(has_large_weights, parts)) else AT_ONCE
    while parts:
        some, size = [parts.pop()], 0
        while parts and (bound is None or (size := size + parts[-1].nbytes) < bound):
            some.append(parts.pop())
        yield Change.joined(some)


def _different(rows: Rows) -> Rows:
    return consolidate(Change(rows, ones(len(rows)))).rows
