"""Packed runs: entries of whole numbers as single words, in order, each with its weight in as few bytes as hold it.

A word has the columns of the key, then the others, then the rounds, each as its distance from the least possible value.
So entries are sorted, merged, summed and searched for as numbers: nothing is hashed, and an entry takes few bytes. The
caller keeps rows that have a null, or values too far apart for a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np
import pyarrow as pa

from ...arrays.ordering import Order
from ...core.interrupts import beside
from ..values.change import Change, ManyRounds, Numbers, Rounds, all_one, ones
from ..values.consolidate import group_starts, narrow, not_zero, sum_groups, to_merge
from ..values.rows import Rows
from ..values.value_columns import Column, FixedColumn, Index, Mask, empty_column
from .packed_key_domain import WORD_BITS, PackedKeyDomain, packable
from .pairs import of_one, pairs

_ROUNDS: Final = (0, 15)
"""The rounds that a layout has room for from the start."""
_WORTH: Final = 8
"""A run gets a directory once the keys of look-ups are this part of its entries ..."""
_AN_ENTRY: Final = 4
_FEW: Final = 1_024
"""... and there are at most so many possible keys for each entry."""
_MORE: Final = 8
"""The factor by which more of a key's entries are looked at where the first ones were not enough."""

_END: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a word: `columns` by their position in a row, of which the first `keys` are the key, then `depth`
    rounds. The order of columns that are `descending` is reversed.
    """

    columns: tuple[int, ...]
    descending: tuple[bool, ...]
    keys: int
    depth: int

    @classmethod
    def of(cls, types: Sequence[pa.DataType], key: Sequence[int], orders: Sequence[Order], depth: int) -> Form | None:
        """The form of rows by their key, and under a key in these orders and then by all columns; None where rows of
        these types are never words.
        """
        if not types or not all(map(packable, types)) or len(set(key)) < len(key):
            return None
        descending = dict.fromkeys(key, False)
        for order in orders:
            descending.setdefault(order.column, order.descending)
        for at in range(len(types)):
            descending.setdefault(at, False)
        return cls(tuple(descending), tuple(descending.values()), len(key), depth)

    def laid(self, rows: Rows, rounds: ManyRounds) -> Rows:
        """Rows without nulls in the order of a word's columns, with the rounds as columns."""
        columns: list[Column] = []
        for at, down in zip(self.columns, self.descending, strict=True):
            values = rows.columns[at].values  # type: ignore[attr-defined]
            columns.append(FixedColumn(~values if down else values))
        return Rows([*columns, *map(FixedColumn, rounds)], len(rows))


@dataclass(frozen=True, eq=False)
class Layout:
    """The layout of the words of a form whose columns have these ranges."""

    form: Form
    domain: PackedKeyDomain

    @classmethod
    def of(cls, form: Form, lows: tuple[int, ...], bits: tuple[int, ...], types: Sequence[pa.DataType]) -> Layout:
        """A layout of a known domain, of rows of these types."""
        columns = [empty_column(types[at]) for at in form.columns]
        dtypes = tuple(column.values.dtype for column in columns if isinstance(column, FixedColumn))
        return cls(form, PackedKeyDomain(lows, bits, (*dtypes, *(np.dtype(np.int64),) * form.depth)))

    @cached_property
    def shifts(self) -> tuple[int, ...]:
        bits = self.domain.bits
        return tuple(sum(bits[at + 1 :]) for at in range(len(bits)))

    @cached_property
    def key_shift(self) -> int:
        return sum(self.domain.bits[self.form.keys :])

    @cached_property
    def key_bits(self) -> int:
        return sum(self.domain.bits[: self.form.keys])

    @cached_property
    def round_bits(self) -> int:
        return sum(self.domain.bits[len(self.form.columns) :])

    def rows(self, words: Numbers, columns: Sequence[int] | None = None) -> Rows:
        """The rows of words, with these columns, or with all."""
        form = self.form
        positions = {at: position for position, at in enumerate(form.columns)}
        wanted = range(len(form.columns)) if columns is None else columns
        restored = []
        for at in wanted:
            position = positions[at]
            values = self._values(words, position).astype(self.domain.dtypes[position], copy=False)
            restored.append(FixedColumn(~values if form.descending[position] else values))
        return Rows(restored, len(words))

    def keys(self, words: Numbers) -> Rows:
        """The keys of words."""
        return Rows([FixedColumn(self._values(words, at)) for at in range(self.form.keys)], len(words))

    def rounds(self, words: Numbers) -> ManyRounds:
        start = len(self.form.columns)
        return tuple(self._values(words, position) for position in range(start, start + self.form.depth))

    def counts_at(self, words: Numbers, time: Rounds) -> Mask:
        """True for each entry that counts for the state at this time."""
        start = len(self.form.columns)
        counts = self._values(words, start) <= time[0]
        for position, number in enumerate(time[1:], start + 1):
            counts &= self._values(words, position) <= number
        return counts

    def laid_out_as(self, other: Layout, words: Numbers) -> Numbers:
        """The words of the same entries, in the same order, in another layout that has room for them."""
        packed = np.zeros(len(words), dtype=np.int64)
        for position, (low, shift) in enumerate(zip(other.domain.lows, other.shifts, strict=True)):
            packed |= (self._values(words, position) - low) << shift
        return packed

    def key_words(self, keys: Rows) -> tuple[Index | None, Numbers]:
        """The least word that each key may have, and the keys that have one: None if all do."""
        inside: Mask | None = None
        words = np.zeros(len(keys), dtype=np.int64)
        for position, column in enumerate(keys.columns):
            assert isinstance(column, FixedColumn)
            bits = self.domain.bits[position]
            offsets = column.values.astype(np.int64, copy=False) - self.domain.lows[position]
            fits = offsets.view(np.uint64) >> bits == 0
            if (nulls := column.nulls()) is not None:
                fits &= ~nulls
            if np.count_nonzero(fits) < len(fits):
                inside = fits if inside is None else inside & fits
            words |= offsets << self.shifts[position]
        if inside is None:
            return None, words
        which = inside.nonzero()[0]
        return which, words.take(which)

    def _values(self, words: Numbers, position: int) -> Numbers:
        values: Numbers = words >> self.shifts[position] if self.shifts[position] else words
        if position:
            values = values & ((1 << self.domain.bits[position]) - 1)
        return values + self.domain.lows[position] if self.domain.lows[position] else values


class PackedRun:
    """A packed run. It is immutable: words in ascending order, each once, none with a weight of 0."""

    __slots__ = ("__weakref__", "_asked", "_directory", "_latest", "_once", "layout", "weights", "words")

    def __init__(self, layout: Layout, words: Numbers, weights: Numbers) -> None:
        self.layout = layout
        self.words = words
        self.weights = narrow(weights)
        self._once = weights.ndim == 1 and all_one(weights)
        self._latest = tuple(int(numbers.max(initial=0)) for numbers in layout.rounds(words))
        self._asked = 0
        self._directory: Index | None = None

    def __len__(self) -> int:
        return len(self.words)

    @property
    def nbytes(self) -> int:
        directory = 0 if self._directory is None else self._directory.nbytes
        return int(self.words.nbytes + self.weights.nbytes + directory)

    def pick(self, at: Index, columns: Sequence[int] | None = None) -> Change:
        """The entries at these positions, with these columns, or with all."""
        words = self.words.take(at)
        weights = ones(len(at)) if self._once else self.weights.take(at, axis=0).astype(np.int64, copy=False)
        return Change(self.layout.rows(words, columns), weights, self.layout.rounds(words))

    def words_at(self, at: Index | None, layout: Layout) -> Numbers:
        """The words at these positions, or all words, in a layout that has room for them."""
        words = self.words if at is None else self.words.take(at)
        return words if layout is self.layout else self.layout.laid_out_as(layout, words)

    def ranges(self, key_words: Numbers) -> tuple[Index, Numbers]:
        """For each key the position of its first entry, and the number of its entries."""
        shift = self.layout.key_shift
        directory = self._asked_for(len(key_words))
        if directory is not None:
            keys = key_words >> shift
            first = directory.take(keys)
            return first, directory.take(keys + 1) - first
        first = self.words.searchsorted(key_words)
        return first, self.words.searchsorted(key_words | ((1 << shift) - 1), side="right") - first

    def range(self, key_word: int) -> tuple[int, int]:
        """`ranges` of a single key, as fast as possible."""
        shift = self.layout.key_shift
        directory = self._asked_for(1)
        if directory is not None:
            key = key_word >> shift
            start = directory.item(key)
            return start, directory.item(key + 1) - start
        start = self.words.searchsorted(key_word).item()
        return start, self.words.searchsorted(key_word | ((1 << shift) - 1), side="right").item() - start

    def after(self, time: Rounds) -> bool:
        """True where an entry may be at a time that is not before or at this one."""
        return any(latest > number for latest, number in zip(self._latest, time, strict=True))

    def _asked_for(self, keys: int) -> Index | None:
        """The directory: the start of each possible key. None if the run has no directory."""
        layout = self.layout
        if self._directory is None and self._asked >= 0:
            self._asked += keys
            if 1 << layout.key_bits > max(_AN_ENTRY * len(self), _FEW):
                self._asked = -1
            elif self._asked * _WORTH >= len(self):
                counts = np.bincount(self.words >> layout.key_shift, minlength=1 << layout.key_bits)
                dtype = np.int32 if len(self) < 1 << 31 else np.int64
                self._directory = np.zeros(len(counts) + 1, dtype=dtype)
                np.cumsum(counts, out=self._directory[1:])
        return self._directory


class PackedRuns:
    """Packed runs, oldest first, each in the layout of the time when it was made. The layout grows while all rows that
    come in have room in a word. From then on the layout stays, so that a row and the row that undoes it are both here
    or both not.
    """

    def __init__(self, form: Form, width: int) -> None:
        self._form = form
        self._width = width
        self._stays = False
        self.layout: Layout | None = None
        self.runs: list[PackedRun] = []
        self.touched = 0

    @property
    def rows(self) -> int:
        return sum(map(len, self.runs))

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.runs)

    def add(self, rows: Rows, weights: Numbers, rounds: ManyRounds) -> Index | None:
        """Keep the rows that can be packed. Return the positions of the others; None if there are none."""
        there = rows.without_nulls()
        which = None if there is None or there.all() else there.nonzero()[0]
        if which is not None:
            rows, weights, rounds = rows.take(which), weights.take(which, axis=0), _taken(rounds, which)
        laid = self._form.laid(rows, rounds)
        if len(laid):
            self._make_room(laid)
        words = None if self.layout is None or not len(laid) else self.layout.domain.positions(laid)
        if words is None:
            inside = None if self.layout is None or not len(laid) else self.layout.domain.inside(laid)
            fits = np.zeros(0, dtype=np.int64) if inside is None else inside.nonzero()[0]
            which = fits if which is None else which.take(fits)
            if inside is not None and len(fits) and self.layout is not None:
                words, weights = self.layout.domain.positions(laid.take(fits)), weights.take(fits, axis=0)
        if words is not None and self.layout is not None:
            self.insert(packed(self.layout, words, weights))
        if which is None:
            return None
        others = np.ones(len(rows) if there is None else len(there), dtype=np.bool_)
        others[which] = False
        return others.nonzero()[0]

    def insert(self, run: PackedRun) -> None:
        """Add a run of this layout."""
        while self.runs and to_merge(len(self.runs[-1]), len(run)):
            run = _merged(self.runs.pop(), run)
        if len(run):
            self.runs.append(run)

    def take(self, run: PackedRun) -> None:
        """Add a run of other packed runs of this form, newer than all runs here."""
        self.layout = run.layout
        self.insert(run)

    def leave(self, rows: Rows) -> None:
        """Leave such rows to the caller, and from now on also the rows that undo them."""
        there = rows.without_nulls()
        self._stays |= there is None or bool(there.any())

    def clear(self) -> None:
        self.runs.clear()

    def matches(self, keys: Rows) -> Iterator[tuple[PackedRun, Index, Index]]:
        """For each run with matches: pairs of one of `keys` and an entry that has it."""
        if self.layout is None or not self.runs:
            return
        layout, (asked, words) = self.layout, self.layout.key_words(keys)
        for run in self.runs:
            if run.layout is not layout:
                layout, (asked, words) = run.layout, run.layout.key_words(keys)
            if len(words) == 1:
                start, count = run.range(words.item())
                if count:
                    self.touched += count
                    mine, at = of_one(start, count)
                    yield run, mine if asked is None else np.full(count, asked.item()), at
            elif len(words):
                for mine, at in pairs(asked, *run.ranges(words)):
                    self.touched += len(mine)
                    yield run, mine, at

    def sums(self, keys: Rows, time: Rounds) -> Sums:
        """The sums of the entries of different keys that count at this time, without their rounds."""
        return self._of_keys(keys, lambda words: self._summed(words, time, None)[0])

    def first(self, keys: Rows, time: Rounds, count: int) -> Sums:
        """The first rows of each of these different keys that exist at this time: at least as many as make up a weight
        of `count`, if the key has them.
        """
        return self._of_keys(keys, lambda words: self._first(words, time, count))

    def later(self, keys: Rows, time: Rounds) -> tuple[Index, ManyRounds]:
        """The times of entries that may count at a time after this one, and the keys that they belong to."""
        late = [run for run in self.runs if run.after(time)]
        if self.layout is None or not late:
            none = np.empty(0, dtype=np.int64)
            return none, (none,) * self._form.depth
        asked, words = self.layout.key_words(keys)
        whose, times = [], []
        for run in late:
            among, start, counts = self._ranges(run, words)
            of, at = _spread(among, start, counts)
            self.touched += len(at)
            whose.append(of if asked is None else asked.take(of))
            times.append(run.layout.rounds(run.words.take(at)))
        return np.concatenate(whose), tuple(map(np.concatenate, zip(*times, strict=True)))

    def rows_of(self, sums: Sums, columns: Sequence[int] | None = None) -> Rows:
        assert self.layout is not None
        return self.layout.rows(sums.words << self.layout.round_bits, columns)

    def _make_room(self, laid: Rows) -> None:
        """Let the layout grow for these rows, as long as it can."""
        if self._stays or (self.layout is not None and self.layout.domain.inside(laid) is None):
            return
        if self.layout is None:
            domain = PackedKeyDomain.around(laid, also=(_ROUNDS,) * self._form.depth)
        else:
            domain = self.layout.domain.extended(laid)
        if domain is None:
            self._stays = True
            return
        self.layout = Layout(self._form, domain)

    def _ranges(self, run: PackedRun, key_words: Numbers) -> tuple[Index | None, Index, Numbers]:
        """The ranges of the keys of these words in a run of any layout: the keys that the run may have, None if all;
        for each of them the position of the first entry, and the number of entries.
        """
        assert self.layout is not None
        if run.layout is self.layout:
            return None, *run.ranges(key_words)
        among, words = run.layout.key_words(self.layout.keys(key_words))
        return among, *run.ranges(words)

    def _of_keys(self, keys: Rows, sums_of: Callable[[Numbers], Sums]) -> Sums:
        """Call `sums_of` with the words of keys in ascending order, and return its result in the order of the keys."""
        if self.layout is None or not self.runs or not len(keys):
            return Sums.nothing(self._width)
        asked, words = self.layout.key_words(keys)
        if not len(words):  # the layout has no room for any of the keys, so there are no entries
            return Sums.nothing(self._width)
        if np.count_nonzero(words[1:] > words[:-1]) == len(words) - 1:
            sums = sums_of(words)
        else:
            order = beside(words.argsort, len(words))
            sums = sums_of(words.take(order))
            asked = order if asked is None else asked.take(order)
            back = asked.take(sums.asked).argsort(kind="stable")
            sums = sums.take(back)
        return sums if asked is None else Sums(asked.take(sums.asked), sums.words, sums.weights)

    def _first(self, words: Numbers, time: Rounds, count: int) -> Sums:
        parts: list[Sums] = []
        waiting = np.arange(len(words))
        width = 2 * count + 2
        while len(waiting):
            sums, cut = self._summed(words.take(waiting), time, width)
            sums = sums.take((sums.weights > 0).nonzero()[0])
            enough = ~cut
            if np.count_nonzero(cut):
                enough |= np.bincount(sums.asked, weights=sums.weights, minlength=len(waiting)) >= count
            done = sums.take(enough.take(sums.asked).nonzero()[0])
            parts.append(Sums(waiting.take(done.asked), done.words, done.weights))
            waiting = waiting[~enough]
            width *= _MORE
        if len(parts) == 1:
            return parts[0]
        whole = Sums(*map(np.concatenate, zip(*((one.asked, one.words, one.weights) for one in parts), strict=True)))
        return whole.take(whole.asked.argsort(kind="stable"))

    def _summed(self, key_words: Numbers, time: Rounds, width: int | None) -> tuple[Sums, Mask]:
        """The sums of all entries of keys in ascending order, or of up to `width` entries of each key in each run, as
        far as the first run that has more goes; and the keys for which a run has more.
        """
        assert self.layout is not None
        bits = self.layout.round_bits
        limits = np.full(len(key_words), _END)
        parts: list[tuple[Index, Numbers, Numbers]] = []
        for run in self.runs:
            among, start, counts = self._ranges(run, key_words)
            if width is not None and len(more := (counts > width).nonzero()[0]):
                counts = np.minimum(counts, width)
                whose = more if among is None else among.take(more)
                last = run.words_at(start.take(more) + (width - 1), self.layout) >> bits
                limits[whose] = np.minimum(limits.take(whose), last)
            of, at = _spread(among, start, counts)
            self.touched += len(at)
            words = run.words_at(at, self.layout)
            weights = run.weights.take(at, axis=0)
            if run.after(time):
                counted = self.layout.counts_at(words, time).nonzero()[0]
                of, words, weights = of.take(counted), words.take(counted), weights.take(counted, axis=0)
            parts.append((of, words >> bits if bits else words, weights))
        of, words, weights = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        if len(parts) > 1:
            order = beside(partial(words.argsort, kind="stable"), len(words))
            of, words, weights = of.take(order), words.take(order), weights.take(order, axis=0)
        cut = limits < _END
        if np.count_nonzero(cut):
            known = (words < limits.take(of)).nonzero()[0]
            of, words, weights = of.take(known), words.take(known), weights.take(known, axis=0)
        differs = words[1:] != words[:-1]
        if np.count_nonzero(differs) < len(differs):
            starts = group_starts(differs)
            of, words = of.take(starts), words.take(starts)
            weights = sum_groups(weights.astype(np.int64), starts)
        return Sums(of, words, weights.astype(np.int64, copy=False)).without_zeros(), cut


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums: different rows of keys, as words without rounds, each with the sum of its weights. `asked` has each row's
    key, ascending. Under one key the rows are in order.
    """

    asked: Index
    words: Numbers
    weights: Numbers

    def __len__(self) -> int:
        return len(self.words)

    @classmethod
    def nothing(cls, width: int) -> Sums:
        none = np.empty(0, dtype=np.int64)
        return cls(none, none, none if width == 1 else np.empty((0, width), dtype=np.int64))

    def take(self, which: Index) -> Sums:
        return Sums(self.asked.take(which), self.words.take(which), self.weights.take(which, axis=0))

    def without_zeros(self) -> Sums:
        there = not_zero(self.weights)
        return self if np.count_nonzero(there) == len(there) else self.take(there.nonzero()[0])


def packed(layout: Layout, words: Numbers, weights: Numbers) -> PackedRun:
    """A run of words in any order. The arrays may be sorted in place."""
    bits = sum(layout.domain.bits)
    return beside(lambda: PackedRun(layout, *_each_once(*_in_order(words, weights, bits))), len(words))


def _merged(older: PackedRun, newer: PackedRun) -> PackedRun:
    return beside(lambda: _merged_now(older, newer), len(older) + len(newer))


def _merged_now(older: PackedRun, newer: PackedRun) -> PackedRun:
    words = np.concatenate([older.words_at(None, newer.layout), newer.words])
    order = words.argsort(kind="stable")  # fast for words that consist of sorted runs
    weights = np.concatenate([older.weights, newer.weights]).take(order, axis=0)
    return PackedRun(newer.layout, *_each_once(words.take(order), weights))


def _each_once(words: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Words in order, each with the sum of its weights, without those that sum to 0."""
    differs = words[1:] != words[:-1]
    if np.count_nonzero(differs) < len(differs):
        starts = group_starts(differs)
        words, weights = words.take(starts), sum_groups(weights.astype(np.int64, copy=False), starts)
    there = not_zero(weights)
    if np.count_nonzero(there) < len(there):
        which = there.nonzero()[0]
        words, weights = words.take(which), weights.take(which, axis=0)
    return words, weights


def _in_order(words: Numbers, weights: Numbers, bits: int) -> tuple[Numbers, Numbers]:
    """Words in order, with their weights. Sorting numbers is many times as fast as finding their order, so small
    weights are put behind the words of so many `bits` where there is room.
    """
    if np.count_nonzero(words[1:] >= words[:-1]) == len(words) - 1:
        return words, weights
    columns = [weights] if weights.ndim == 1 else list(weights.T)
    lows = [int(column.min()) for column in columns]
    sizes = [(int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)]
    if bits + sum(sizes) > WORD_BITS:
        order = words.argsort()
        return words.take(order), weights.take(order, axis=0)
    both = words
    for column, low, size in zip(columns, lows, sizes, strict=True):
        both = (both << size) | (column - low) if size else both
    both = np.sort(both)
    unpacked = []
    for low, size in zip(reversed(lows), reversed(sizes), strict=True):
        unpacked.append((both & ((1 << size) - 1)) + low if size else np.full(len(both), low))
        both = both >> size if size else both
    return both, unpacked[0] if weights.ndim == 1 else np.stack(unpacked[::-1], axis=1)


def _spread(among: Index | None, start: Index, counts: Numbers) -> tuple[Index, Index]:
    """The entries of keys (of all keys, if `among` is None): the key of each entry, and its position."""
    of = (np.arange(len(counts)) if among is None else among).repeat(counts)
    ends = counts.cumsum(dtype=np.int64)
    at = (start - ends + counts).repeat(counts)
    at += np.arange(len(at))
    return of, at


def _taken(rounds: ManyRounds, which: Index) -> ManyRounds:
    return tuple(numbers.take(which) for numbers in rounds)
