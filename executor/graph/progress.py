"""How far the inputs of a graph are read in an epoch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa

from ...operators.piece import Piece
from ...planner.pipelines import PhysicalPlan, Pipeline, ScanNode, walk
from ...planner.user_nodes import IterateNode
from ...proto.graph import IterableSource
from ...proto.statistics import SourceProgress
from ..meters import Meters
from ..pipeline import Pieces

Total: TypeAlias = int | None


class Reading:
    """Rows are those that the inputs' operators gave since the epoch began."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._begun: Mapping[str, tuple[int, Total]] = {}

    def begin(self, plan: PhysicalPlan, pieces: Pieces) -> None:
        """An epoch reads these pieces. No other one is running."""
        totals: dict[str, Total] = {}
        for name, total in _totals(plan, pieces):
            known = totals.get(name, 0)
            totals[name] = None if known is None or total is None else known + total
        self._begun = {name: (self._rows(name), total) for name, total in totals.items()}

    def progress(self) -> Mapping[str, SourceProgress]:
        """Of each input, from any thread."""
        return {
            name: SourceProgress(rows=self._rows(name) - before, total=total)
            for name, (before, total) in self._begun.items()
        }

    def _rows(self, name: str) -> int:
        return self._meters.rows_out("Scan", name) + self._meters.rows_out("Iterate", name)


def _totals(plan: PhysicalPlan, pieces: Pieces) -> Iterator[tuple[str, Total]]:
    """For each place where an input is read, how many rows all channels read there."""
    for pipeline in plan.pipelines:
        for node in walk(pipeline.root):
            match node:
                case ScanNode():
                    yield node.source, _scanned(node, pipeline, pieces[node.source])
                case IterateNode(source=source):
                    yield source.name, _iterated(source)
                case _:
                    pass


def _scanned(node: ScanNode, pipeline: Pipeline, pieces: Sequence[Piece]) -> Total:
    rows = _sum(piece.row_count for piece in pieces)
    return rows if rows is None or not node.whole else rows * pipeline.channels


def _iterated(source: IterableSource) -> Total:
    """Arrow data that was given as a list tells it; anything else may end anywhere."""
    if not isinstance(source.items, list) or source.epoch_rows is not None:
        return None
    return _sum(each.num_rows if isinstance(each, pa.RecordBatch) else None for each in source.items)


def _sum(counts: Iterable[Total]) -> Total:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
