"""Window: the results of window functions for each row of a partition.

Rows of a partition lie in the windows' order, ties broken by all columns. The operator looks at the rows around a
changed row that have it in their frames, or at more rows until the answers are the earlier ones. A partition that is
small against the changes in it is answered anew as a whole. Confluent. State: all rows, each with its answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ..arrays.ordering import Order
from ..core.interrupts import look
from ..core.wide_rows import PassingRows
from .agenda import Agenda
from .change_operator import ChangeOperator, Kept
from .event_time.floor import Floor
from .event_time.forgetting import Forgetting
from .kept.changed_rows import ChangedRows
from .kept.chosen_entries import ChosenEntries
from .kept.matching_entries import MatchingEntries
from .kept.ordered_arrangement import OrderedArrangement
from .kept.present import Present, present, same_as_before
from .kept.section import Position, Section, Stretch
from .regroup import Regroup, failed_key
from .values.change import Change, Numbers, Rounds
from .values.consolidate import consolidate
from .values.evaluator import Evaluator, RowsFailed
from .values.order_codes import canonical_orders, orders_of
from .values.portions import TOGETHER, portions_with_room
from .values.rows import Rows, taken
from .values.value_columns import Index, fixed

_FREED: Final = PassingRows(4 << 20)
_COPIES: Final = 2
_WITH_ANSWERS: Final = 5
"""The copies of a partition's rows that are in memory while it is answered; and with answers that may be as long."""
_WORTH: Final = 4_096
"""A partition with more than so many rows for each changed row is not answered as a whole."""
_FIRST: Final = 256
_MORE: Final = 4
"""The rows that are looked at behind a changed row, and the factor for more where they were not enough."""

NUMBERS: Final = ("position", "peers", "partition", "before")
"""The columns that the statement reads behind a row's: its position, which rows are its peers, which partition it is
in, and how many rows of the partition are ahead of all that are read."""


@dataclass(frozen=True, slots=True)
class WindowReach:
    """The rows that a row's answers depend on: so many rows `before` and `after` it; the number of all rows before it
    where they are `counted`; the answer of the row before it for the calls `carried`; or the `whole` partition. With
    `peers`, rows that are alike in the sort keys have one answer to the calls.
    """

    whole: bool = False
    before: int = 0
    after: int = 0
    counted: bool = False
    carried: tuple[int, ...] = ()
    peers: bool = False


def read_by_windows(schema: pa.Schema, answers: pa.Schema, reach: WindowReach) -> pa.Schema:
    """The columns that the statement reads, for rows of `schema`."""
    numbers = (pa.field(name, pa.int64()) for name in NUMBERS)
    return pa.schema([*schema, *numbers, *(answers.field(call) for call in reach.carried)])


class Windows:
    """The statement of the window calls. `evaluate` reads the columns of rows, `NUMBERS`, and for carried calls the
    answers of the row ahead of all rows that are read. It gives the calls' answers, then the position of each row.
    """

    def __init__(
        self, schema: pa.Schema, answers: pa.Schema, grouped: Sequence[int], reach: WindowReach, evaluate: Evaluator
    ) -> None:
        self._read = read_by_windows(schema, answers, reach)
        self.answers: list[pa.DataType] = answers.types
        self._grouped = tuple(grouped)
        self._carried = reach.carried
        self._evaluate = evaluate

    def peers(self, rows: Rows, partition: Index) -> Index:
        """The number of each row's peers; rows are in order."""
        if not len(rows):
            return partition
        same = same_as_before(partition, rows.select(self._grouped))
        return np.concatenate([[0], np.cumsum(~same)])

    def of(self, rows: Rows, partition: Index, before: int = 0, base: Rows | None = None) -> Rows:
        """The answers for rows in order. `base` has those of the row ahead of them, if there is one."""
        count = len(rows)
        if not count:
            return Rows.empty(self.answers)
        numbers = (np.arange(count), self.peers(rows, partition), partition, np.full(count, before))
        arrays = [*map(pa.array, numbers)]
        nothing = np.zeros(count, dtype=np.int64)
        for call in self._carried:
            type_ = self.answers[call]
            carried = None if base is None else base.columns[call].take(nothing).to_arrow(type_)
            arrays.append(pa.nulls(count, type_) if carried is None else carried)
        *columns, position = self._evaluate(rows.to_batch(self._read, *arrays)).columns
        look()
        order = np.empty(count, dtype=np.int64)
        order[position.to_numpy(zero_copy_only=False)] = np.arange(count)
        answers = [Rows.of_arrays(columns, count)]
        return answers[0] if np.count_nonzero(np.diff(order) != 1) == 0 else taken(answers, order)


class Window(ChangeOperator):
    """The operator. It gives rows of `input_schema`, whose first `keys` columns are the partition's, in `orders`, each
    with its answers.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        keys: int,
        orders: Sequence[Order],
        schema: pa.Schema,
        reach: WindowReach,
        evaluate: Evaluator,
        *,
        plan_path: str,
        floor: Floor | None = None,
    ) -> None:
        self.schema = schema
        self._width = len(input_schema)
        self._key = tuple(range(keys))
        self._plan_path = plan_path
        self._reach = reach
        self._orders = tuple(orders_of(self._width, [*canonical_orders(keys), *orders]))
        grouped = sorted({*self._key, *(order.column for order in orders)})
        self._peers = len(grouped) if reach.peers else None
        answers = pa.schema(list(schema)[self._width :])
        self._copies = _COPIES if all(map(fixed, answers.types)) else _WITH_ANSWERS
        self._windows = Windows(input_schema, answers, grouped, reach, evaluate)
        self._given = OrderedArrangement(schema.types, self._key, orders)
        if floor is not None:
            self.forgetting = (Forgetting((self._given, floor.column), floor=floor),)
        self._agenda: Agenda[Change] = Agenda()
        self._deciding = 0
        """The bytes of the changes that are being decided."""

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - there is one input
        if len(change):
            self._agenda.add((), change)
        return ()

    def due(self) -> Rounds | None:
        return self._agenda.first()

    def decide(self, rounds: Rounds) -> Iterator[Change]:
        delta = self._delta(rounds)
        if delta is None:
            return
        self._deciding = delta.nbytes
        near = np.zeros(len(delta.keys), dtype=np.bool_)
        if not self._reach.whole:
            near = self._given.counts(delta.hashes) > _WORTH * np.bincount(delta.asked)
        for key in np.flatnonzero(near).tolist():
            around = self._around_changes(delta.only(key))
            near[key] = around is not None
            yield from self._given_out(around or [])
        whole = delta.of_keys(np.flatnonzero(~near))
        del delta  # whose rows may be long
        for numbers in self._portions(whole):
            yield from self._given_out([self._whole(whole.of_keys(numbers))])
        self._deciding = 0

    def kept(self) -> Iterable[Kept]:
        yield Kept("given", self._given, self.schema)

    @property
    def nbytes(self) -> int:
        return super().nbytes + self._deciding + self._agenda.nbytes(lambda change: change.nbytes)

    def _delta(self, rounds: Rounds) -> ChangedRows | None:
        parts = list(self._agenda.take(rounds))
        if not parts:
            return None
        change = Change.scattered(parts)
        _FREED.add_bytes(change.rows.long_bytes)
        return ChangedRows.of(change, self._key, self._orders)

    def _given_out(self, changes: Sequence[Change]) -> Iterable[Change]:
        """The changes of the answers of keys, which are kept."""
        change = consolidate(Change.concat(changes)) if changes else None
        if change is None or not len(change):
            return ()
        size = change.rows.long_bytes  # which nobody else counts yet
        _FREED.add_bytes(size)
        self._deciding += size
        self._given.insert(change)
        self._deciding -= size
        return (change,)

    def _portions(self, delta: ChangedRows) -> Iterable[Index]:
        size = delta.nbytes
        if size + self._given.nbytes <= TOGETHER:
            return (np.arange(len(delta.keys)),)
        row_bytes = size // max(len(delta.rows), 1)
        sizes = self._given.sizes(delta.keys.hashed(delta.hashes))
        sizes += row_bytes * np.bincount(delta.asked, minlength=len(delta.keys))
        return portions_with_room(sizes, self._copies)

    def _whole(self, delta: ChangedRows) -> Change:
        """The changes of the answers of partitions, from all of their rows."""
        before = self._given.find(delta.keys.hashed(delta.hashes))
        earlier = ChosenEntries(before.asked, before.rows.select(range(self._width)), None, before.weights, ())
        together = ChosenEntries.joined([earlier, delta.entries()]) if len(before) else delta.entries()
        now = present(together, (), self._orders)
        del together
        rows, partition = now.with_copies(f"{self._plan_path}: Window")
        try:
            answered = rows.beside(self._windows.of(rows, partition))
        except RowsFailed as error:
            schema = pa.schema(list(self.schema)[: len(self._key)])
            raise failed_key(error, delta.keys, schema, rows, partition, self._windows.of) from error
        del rows, now  # which may be long
        return _difference(answered, before.rows, before.weights)

    # ------------------------------------------------------------------------------------------ around what changes

    def _around_changes(self, delta: ChangedRows) -> list[Change] | None:
        """The changes of the answers of one partition, from the rows around the changed ones; None where that takes all
        rows.
        """
        stretches = self._given.stretches(delta.keys, delta.hashes)
        if stretches is None:
            return None
        sums = np.cumsum(delta.weights)
        changed = delta.rows.take(delta.at)
        stretches.append(Stretch(changed, delta.weights, 0, len(changed), sums))
        section = Section(stretches, self._orders)
        changes: list[Change] = []
        at = 0
        try:
            while at < len(changed):
                change, at = self._from(section, stretches, at)
                changes.append(change)
        except RowsFailed:
            return None  # such as a sum that is too large without the rows before: the whole partition decides
        return changes

    def _from(self, section: Section, stretches: Sequence[Stretch], at: int) -> tuple[Change, int]:
        """The changes from the partition's changed row number `at` on, and the first changed row behind them."""
        span = self._span(section, stretches, at)
        size = _FIRST + 2 * (self._reach.before + self._reach.after)
        while True:
            changes = self._answered(section, stretches, span, section.behind(span.start, size, self._peers))
            if changes is not None:
                return changes
            size *= _MORE

    def _span(self, section: Section, stretches: Sequence[Stretch], at: int) -> _Span:
        """The start of the rows whose answers a changed row changes, and the start of the rows to look at for that."""
        reach, peers = self._reach, self._peers
        row = stretches[-1].rows.take(np.array([at]))
        start = section.ahead(section.position(row, columns=peers), reach.after, peers, _KEPT)
        context = section.ahead(start, reach.before, peers, _KEPT)
        base, step = None, 1
        while reach.carried and context != section.begin:
            base = self._agreed(self._between(stretches, section.ahead(context, 1, runs=_KEPT), context))
            if base is not None:
                break
            context = section.ahead(context, step, peers, _KEPT)
            step *= 2
        return _Span(at, context, start, section.weight(section.begin, context), base)

    def _agreed(self, rows: Present) -> Rows | None:
        """The answers of the last row; None where copies of it have others to the calls that are carried."""
        last = self._last_alike(rows.rows)
        answers = rows.rows.take(last).select(range(self._width, len(self.schema)))
        carried = answers.select(self._reach.carried)
        numbers = np.arange(len(last))
        return answers.take(numbers[:1]) if carried.same(numbers, carried, np.zeros_like(numbers)).all() else None

    def _last_alike(self, rows: Rows) -> Index:
        """The last rows that are the same but for their answers."""
        own = rows.select(range(self._width))
        numbers = np.arange(len(rows))
        other = np.flatnonzero(~own.same(numbers, own, np.full_like(numbers, len(rows) - 1)))
        return numbers[other[-1] + 1 if len(other) else 0 :]

    def _answered(
        self, section: Section, stretches: Sequence[Stretch], span: _Span, stop: Position
    ) -> tuple[Change, int] | None:
        """The changes up to `stop`, or a little before it, and the next changed row, if no other answer changes up to
        there; else None.
        """
        old = self._between(stretches, span.context, stop)
        now = self._now(old, stretches[-1], span.context[-1], stop[-1])
        copies = now.copies(f"{self._plan_path}: Window")
        rows = now.rows.take(copies)
        partition = np.zeros(len(rows), dtype=np.int64)
        head = section.weight(span.context, span.start, _KEPT)
        tail = len(rows)
        end = stop
        if stop != section.end:
            tail -= self._reach.after
            if tail <= head:
                return None
            if self._reach.after:
                groups = self._windows.peers(rows, partition) if self._reach.peers else copies
                tail = int(np.searchsorted(groups, groups[tail]))
                end = section.position(rows.take(np.array([tail])), columns=self._peers)
        answered = rows.beside(self._windows.of(rows, partition, span.before, span.base))
        answered = answered.take(np.arange(head, tail))
        ends = np.cumsum(old.weights)
        skipped = int(ends.searchsorted(head, side="right"))
        within = np.arange(skipped, ends.searchsorted(head + section.weight(span.start, end, _KEPT), side="right"))
        before = old.rows.take(within)
        change = _difference(answered, before, old.weights[within])
        if end == section.end:
            return change, len(stretches[-1].rows)
        same = self._is_as_before(section, stretches, span, end) and self._ends_alike(answered, before, old, within)
        return (change, end[-1]) if same else None

    def _is_as_before(self, section: Section, stretches: Sequence[Stretch], span: _Span, end: Position) -> bool:
        """True where no row behind `end` depends on the changed rows ahead of it, except by carried answers."""
        reach, following = self._reach, end[-1]
        if following <= span.at:
            return False
        delta = stretches[-1]
        last = section.position(delta.rows.take(np.array([following - 1])), behind=True, columns=self._peers)
        if section.weight(last, end, _KEPT) < max(reach.before, 1):
            return False
        if reach.counted and delta.weight(0, following):
            return False
        if following == len(delta.rows):
            return True
        context = self._span(section, stretches, following).context
        return all(mine >= theirs for mine, theirs in zip(context, end, strict=True))

    def _ends_alike(self, answered: Rows, before: Rows, old: Present, within: Index) -> bool:
        """True where the last row has its earlier answers."""
        if not len(before):
            return False
        now, then = self._last_alike(answered), self._last_alike(before)
        difference = _difference(answered.take(now), before.take(then), old.weights[within[then]])
        return not len(consolidate(difference))

    def _now(self, old: Present, delta: Stretch, start: int, stop: int) -> Present:
        """The earlier rows, with the changed rows from `start` to `stop` applied."""
        come = np.arange(start, stop)
        rows = Rows.concat([old.rows.select(range(self._width)), delta.rows.take(come)])
        weights = np.concatenate([old.weights, delta.weights[come]])
        return present(MatchingEntries(np.zeros(len(rows), dtype=np.int64), rows, weights, ()), (), self._orders)

    def _between(self, stretches: Sequence[Stretch], start: Position, stop: Position) -> Present:
        """The earlier rows from one place to another, with their answers, in order."""
        parts = [
            (stretch.rows.take(np.arange(first, last)), stretch.weights[first:last])
            for stretch, first, last in zip(stretches[:-1], start, stop, strict=False)
        ]
        rows = Rows.concat([rows for rows, _ in parts])
        weights = np.concatenate([weights for _, weights in parts])
        self._given.looked_at += len(rows)
        return present(MatchingEntries(np.zeros(len(rows), dtype=np.int64), rows, weights, ()), (), self._given.orders)


_KEPT: Final = slice(0, -1)
"""The stretches of kept rows; the last stretch is of changed rows."""


@dataclass(frozen=True, slots=True, eq=False)
class _Span:
    """The span of the changed row `at`: answers change from `start` on. The rows to look at begin at the `context`,
    with so many rows `before` it, the last of which had the answers `base`.
    """

    at: int
    context: Position
    start: Position
    before: int
    base: Rows | None


def _difference(now: Rows, before: Rows, weights: Numbers) -> Change:
    """The rows that exist now, each once, less the rows from `before`, with these weights."""
    return Change.scattered([Change(now, np.ones(len(now), dtype=np.int64)), Change(before, -weights)])


class WindowByRound(Regroup):
    """The same operator where rounds are counted: partitions are answered as wholes."""

    def __init__(
        self,
        input_schema: pa.Schema,
        keys: int,
        orders: Sequence[Order],
        schema: pa.Schema,
        reach: WindowReach,
        evaluate: Evaluator,
        *,
        plan_path: str,
        depth: int,
    ) -> None:
        super().__init__(input_schema, range(keys), schema, evaluate, plan_path=plan_path, depth=depth)
        grouped = sorted({*range(keys), *(order.column for order in orders)})
        self._orders = orders_of(len(input_schema), [*canonical_orders(keys), *orders])
        self._windows = Windows(input_schema, pa.schema(list(schema)[len(input_schema) :]), grouped, reach, evaluate)
        self._behind = range(keys, len(input_schema))

    def _evaluated(self, rows: Rows, asked: Index) -> tuple[Rows, Index]:
        return rows.select(self._behind).beside(self._windows.of(rows, asked)), asked
