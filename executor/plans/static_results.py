"""Results that a task computes once from its static sources and keeps: rows, and indexes for look-ups."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeAlias

import pyarrow as pa

from ...operators.core.sizes import batch_bytes
from ...operators.indexes.arrow_index import ArrowIndex
from ...operators.indexes.index import Index
from ...planner.physical.instance_memory import index_memory
from ...planner.physical.pipelines import KeptIndex, PhysicalNode, PhysicalPlan
from ...proto.values import TaskOptions
from ..pipelines.kept_rows import KeptRows
from ..runtime.batch_store import SpillSpace
from ..runtime.meters import Meters
from .cluster import ROW_OF_INDEX

Compute: TypeAlias = Callable[[PhysicalNode, int], Generator[pa.RecordBatch]]
"""Computes the rows of a node over the static sources, at a clock."""


class Keeping:
    """Makes and keeps the results.

    Call `ensure` before using a plan's kept rows and indexes, from one thread at a time.
    """

    def __init__(self, compute: Compute, options: TaskOptions, space: SpillSpace, meters: Meters) -> None:
        self._compute = compute
        self._options = options
        self._space = space
        self._meters = meters
        self._rows: dict[str, KeptRows] = {}
        self._indexes: dict[str, Index] = {}

    def rows(self, name: str) -> KeptRows:
        return self._rows[name]

    def index(self, name: str) -> Index:
        return self._indexes[name]

    def ensure(self, physical: PhysicalPlan, clock_us: int) -> KeptIndex | None:
        """Compute the results that this plan needs and that do not exist yet.

        Returns the first index that is too large.
        """
        for index in physical.indexes:
            if index.name not in self._indexes:
                built = self._made(index, clock_us)
                if built is None:
                    return index
                self._indexes[index.name] = built
        for kept in physical.kept:
            if kept.name not in self._rows:
                with closing(self._compute(kept.root, clock_us)) as rows:
                    room = self._options.output_bytes - sum(kept.size for kept in self._rows.values())
                    self._rows[kept.name] = KeptRows(kept.name, rows, room, self._space)
        return None

    def close(self) -> None:
        self._rows.clear()
        while self._indexes:
            self._indexes.popitem()[1].close()

    def _made(self, index: KeptIndex, clock_us: int) -> Index | None:
        """The index; None if it is too large, which depends on its own rows alone."""
        meter = self._meters.of("Index", index.plan_path)
        room = index_memory(self._options) // index.among
        batches: list[pa.RecordBatch] = []
        size = 0
        with closing(self._compute(index.root, clock_us)) as rows:
            for batch in rows:
                batches.append(batch)
                size += batch_bytes(batch) + ROW_OF_INDEX * batch.num_rows
                if size > room:
                    return None
                meter.rows_in += batch.num_rows
                meter.bytes_in += batch_bytes(batch)
        table = pa.Table.from_batches(batches, schema=index.root.schema)
        meter.runs += 1
        return ArrowIndex(index.name, table, keys=index.keys, columns=range(len(table.schema)))
