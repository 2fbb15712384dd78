"""Makes the rows of a merge join from candidate pairs with equal keys: applies the condition and the join's type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from ...proto.errors import ExecutionError
from ..arrays.layout import Flags, Words
from ..core.batches import batch_of
from .kinds import Meaning
from .pair_filter import PairFilter
from .pieces import Insertion, Pieces, affordable, picked, together


@dataclass(frozen=True, slots=True)
class ProbeRows:
    """Probed rows `start` to `stop` of `batch`. `describe` says which row of the input a row is."""

    batch: pa.RecordBatch
    start: int
    stop: int
    describe: Callable[[int], str]

    def rows(self) -> pa.RecordBatch:
        return self.batch.slice(self.start, self.stop - self.start)


@dataclass(frozen=True, slots=True)
class Lost:
    """Held rows without a match, each with the probed row that it comes before."""

    rows: Words
    before: Words


class Matcher:
    """The join's rows from candidate pairs, by the join's type and condition. The pairs are sorted by probed row, then
    by held row.
    """

    def __init__(self, meaning: Meaning, pieces: Pieces, condition: PairFilter | None, plan_path: str) -> None:
        self.meaning = meaning
        self.pieces = pieces
        self.condition = condition
        self._plan_path = plan_path

    def kept(
        self, probe: pa.RecordBatch, probe_rows: Words, held: pa.RecordBatch, held_rows: Words
    ) -> tuple[Words, Words]:
        """The pairs for which the condition holds."""
        if self.condition is None or not len(probe_rows):
            return probe_rows, held_rows
        mask = self.mask(probe, probe_rows, held, held_rows)
        return probe_rows[mask], held_rows[mask]

    def mask(self, probe: pa.RecordBatch, probe_rows: Words, held: pa.RecordBatch, held_rows: Words) -> Flags:
        parts = [
            self._mask(probe, probe_rows[part], held, held_rows[part])
            for part in affordable(probe, probe_rows, held, held_rows)
        ]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _mask(self, probe: pa.RecordBatch, probe_rows: Words, held: pa.RecordBatch, held_rows: Words) -> Flags:
        assert self.condition is not None
        if self.meaning.probe_right:
            return self.condition.matches(held, held_rows, probe, probe_rows)
        return self.condition.matches(probe, probe_rows, held, held_rows)

    def output(
        self, probe: ProbeRows, probe_rows: Words, held: pa.RecordBatch, held_rows: Words, lost: Lost | None = None
    ) -> Iterator[pa.RecordBatch]:
        """All rows that come of the probed rows, whose matches are these pairs, and of the lost rows."""
        if not self.meaning.pairs:
            hit = _marked(probe_rows, probe.start, probe.stop)
            yield from self.asked(probe, hit)
            return
        if self.meaning.single:
            twice = np.flatnonzero(probe_rows[1:] == probe_rows[:-1])
            if twice.size:
                raise self.second_match(probe, int(probe_rows[twice[0]]))
        if self.meaning.probe_alone:
            alone = np.flatnonzero(~_marked(probe_rows, probe.start, probe.stop)) + probe.start
            if alone.size:
                put = Insertion(np.searchsorted(probe_rows, alone), len(probe_rows))
                probe_rows, held_rows = put.into(probe_rows, alone), put.into(held_rows, _NONE)
        if lost is not None and lost.rows.size:
            put = Insertion(np.searchsorted(probe_rows, lost.before), len(probe_rows))
            probe_rows, held_rows = put.into(probe_rows, _NONE), put.into(held_rows, lost.rows)
        if len(probe_rows):
            yield from self.pieces.pairs(probe.batch, probe_rows, held, held_rows)

    def asked(self, probe: ProbeRows, hit: Flags) -> Iterator[pa.RecordBatch]:
        """The rows that come of probed rows, where it is enough to know whether each one matches."""
        wanted = np.flatnonzero(hit if self.meaning.matched else ~hit)
        if wanted.size:
            columns = picked(probe.batch, together(wanted + probe.start))
            yield self.pieces.probe_alone(batch_of(columns, len(wanted), probe.batch.schema))

    def probe_alone(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Probed rows that match nothing."""
        if self.meaning.probe_alone and rows.num_rows:
            yield self.pieces.probe_alone(rows)

    def held_alone(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Held rows that match nothing."""
        if self.meaning.held_alone and rows.num_rows:
            yield self.pieces.held_alone(rows)

    def second_match(self, probe: ProbeRows, row: int) -> ExecutionError:
        one, other = ("right", "left") if self.meaning.probe_right else ("left", "right")
        return ExecutionError(
            f"{self._plan_path}: the {one} input's {probe.describe(row)} matches more than one row of the {other} "
            f"input, and the join is {one} single",
            reason="MORE_THAN_ONE_MATCH",
        )


_NONE: Final = -1


def _marked(rows: Words, start: int, stop: int) -> Flags:
    """True for each of the rows `start` to `stop` that is among `rows`."""
    hit = np.zeros(stop - start, dtype=np.bool_)
    hit[rows - start] = True
    return hit
