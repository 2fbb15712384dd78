"""Packed runs: entries of whole numbers as single words, in order, each with its weight in as few bytes as hold it.

A word has the columns of the key, then the others, then the rounds, each as its distance from the least possible value.
So entries are sorted, merged, summed and searched for as numbers: nothing is hashed, and an entry takes few bytes. The
caller keeps rows that have a null, or values too far apart for a word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ...core.interrupts import beside, look
from ..values.change import ManyRounds, Numbers, Rounds
from ..values.consolidate import group_starts, not_zero, sum_groups, to_merge
from ..values.rows import Rows
from ..values.value_columns import Index, Mask
from .packed_key_domain import PackedKeyDomain
from .packed_layout import Form, Layout
from .packed_words import PackedRun, merged, packed
from .pairs import of_one, pairs

_ROUNDS: Final = (0, 15)
"""The rounds that a layout has room for from the start."""
_MORE: Final = 8
"""The factor by which more of a key's entries are looked at where the first ones were not enough."""

_END: Final = (1 << 63) - 1


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
        return sum([run.nbytes for run in self.runs])

    def add(self, rows: Rows, weights: Numbers, rounds: ManyRounds) -> Index | None:
        """Keep the rows that can be packed. Return the positions of the others; None if there are none."""
        there = rows.without_nulls()
        which = None if there is None or there.all() else there.nonzero()[0]
        if which is not None:
            rows, weights, rounds = rows.take(which), weights.take(which, axis=0), _taken(rounds, which)
        ordered = self._form.in_word_order(rows, rounds)
        if len(ordered):
            self._make_room(ordered)
        words = None if self.layout is None or not len(ordered) else self.layout.domain.positions(ordered)
        if words is None:
            inside = None if self.layout is None or not len(ordered) else self.layout.domain.inside(ordered)
            fits = np.zeros(0, dtype=np.int64) if inside is None else inside.nonzero()[0]
            which = fits if which is None else which.take(fits)
            if inside is not None and len(fits) and self.layout is not None:
                words, weights = self.layout.domain.positions(ordered.take(fits)), weights.take(fits, axis=0)
        if words is not None and self.layout is not None:
            self.insert(packed(self.layout, words, weights))
        if which is None:
            return None
        if not len(which):
            return np.arange(len(rows) if there is None else len(there))
        others = np.ones(len(rows) if there is None else len(there), dtype=np.bool_)
        others[which] = False
        return others.nonzero()[0]

    def packs(self, rows: Rows, rounds: ManyRounds) -> bool:
        """True if `add` would keep some of these rows."""
        there = rows.without_nulls()
        if there is not None:
            which = there.nonzero()[0]
            rows, rounds = rows.take(which), _taken(rounds, which)
        ordered = self._form.in_word_order(rows, rounds)
        if not len(ordered):
            return False
        if not self._stays and self._grown(ordered) is not None:
            return True
        inside = np.zeros(0, dtype=np.bool_) if self.layout is None else self.layout.domain.inside(ordered)
        return inside is None or bool(inside.any())

    def insert(self, run: PackedRun) -> None:
        """Add a run of this layout."""
        while self.runs and to_merge(len(self.runs[-1]), len(run)):
            run = merged(self.runs.pop(), run)
        if len(run):
            self.runs.append(run)

    def takes(self, run: PackedRun) -> bool:
        """True if the run has this form, and the layout may still become that of the run."""
        width = 1 if run.weights.ndim == 1 else run.weights.shape[1]
        return run.layout.form == self._form and width == self._width and not self._stays

    def take(self, run: PackedRun) -> None:
        """Add a run of other packed runs of this form, newer than all runs here."""
        if self.layout is not None and self.layout.domain == run.layout.domain:
            run.layout = self.layout  # runs of one layout are merged and searched without a look at their layouts
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
        if len(keys) == 1:
            yield from self._matches_of_one(self.layout, keys)
            return
        layout, (asked, words) = self.layout, self.layout.key_words(keys)
        for run in self.runs:
            if run.layout is not layout:
                layout, (asked, words) = run.layout, run.layout.key_words(keys)
            if len(words):
                for mine, at in pairs(asked, *run.ranges(words)):
                    self.touched += len(mine)
                    yield run, mine, at

    def _matches_of_one(self, layout: Layout, key: Rows) -> Iterator[tuple[PackedRun, Index, Index]]:
        """`matches` of one key, as fast as possible: many loops have only one key in most rounds."""
        word = layout.key_word(key)
        for run in self.runs:
            if run.layout is not layout:
                layout, word = run.layout, run.layout.key_word(key)
            start, count = (0, 0) if word is None else run.range(word)
            if count:
                self.touched += count
                yield run, *of_one(start, count)

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

    def _make_room(self, ordered: Rows) -> None:
        """Let the layout grow for these rows, as long as it can."""
        if self._stays or (self.layout is not None and self.layout.domain.inside(ordered) is None):
            return
        domain = self._grown(ordered)
        if domain is None:
            self._stays = True
            return
        self.layout = Layout(self._form, domain)

    def _grown(self, ordered: Rows) -> PackedKeyDomain | None:
        """A domain that has room for these rows too; None if no word has."""
        if self.layout is None:
            return PackedKeyDomain.around(ordered, also=(_ROUNDS,) * self._form.depth)
        return self.layout.domain.extended(ordered)

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
            look()
            among, start, counts = self._ranges(run, key_words)
            if width is not None and len(more := (counts > width).nonzero()[0]):
                counts = np.minimum(counts, width)
                whose = more if among is None else among.take(more)
                last = run.words_at(start.take(more) + (width - 1), self.layout) >> bits
                limits[whose] = np.minimum(limits.take(whose), last)
            of, at = _spread(among, start, counts)
            self.touched += len(at)
            look()
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
        look()
        cut = limits < _END
        if np.count_nonzero(cut):
            known = (words < limits.take(of)).nonzero()[0]
            of, words, weights = of.take(known), words.take(known), weights.take(known, axis=0)
        differs = words[1:] != words[:-1]
        if np.count_nonzero(differs) < len(differs):
            starts = group_starts(differs)
            of, words = of.take(starts), words.take(starts)
            weights = sum_groups(weights.astype(np.int64), starts)
        sums = Sums(of, words, weights.astype(np.int64, copy=False))
        look()
        return sums.without_zeros(), cut


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


def _spread(among: Index | None, start: Index, counts: Numbers) -> tuple[Index, Index]:
    """The entries of keys (of all keys, if `among` is None): the key of each entry, and its position."""
    of = (np.arange(len(counts)) if among is None else among).repeat(counts)
    ends = counts.cumsum(dtype=np.int64)
    at = (start - ends + counts).repeat(counts)
    at += np.arange(len(at))
    return of, at


def _taken(rounds: ManyRounds, which: Index) -> ManyRounds:
    return tuple(numbers.take(which) for numbers in rounds)
