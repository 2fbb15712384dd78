"""Computes results of static sources once for a task: a Spark task of one channel writes the rows to a file.

Every channel that needs the rows reads them from the file. Each process that looks rows up makes the index from the
file, and keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ...operators.indexes.index import Index
from ...planner.physical.instance_memory import index_memory
from ...planner.physical.pipelines import KeptIndex, KeptNode, LookupNode, PhysicalNode, PhysicalPlan, walk
from ...proto.errors import InternalError
from ...proto.values import TaskOptions
from ..pipelines.kept_rows import Rows
from ..plans.cluster import ROW_OF_INDEX
from ..runtime.meters import Meters
from .staged_files import Result

Compute: TypeAlias = Callable[[PhysicalNode, int], Result]


class SparkKeeping:
    """Implements `executor.plans.cluster.Keeps`. The service itself reads none of the rows."""

    def __init__(self, compute: Compute, options: TaskOptions, meters: Meters) -> None:
        self._compute = compute
        self._options = options
        self._meters = meters
        self._rows: dict[str, Result] = {}
        self._indexes: dict[str, tuple[Result, tuple[int, ...]]] = {}

    def ensure(self, physical: PhysicalPlan, clock_us: int) -> KeptIndex | None:
        for index in physical.indexes:
            if index.name not in self._indexes and not self._is_made(index, clock_us):
                return index
        for kept in physical.kept:
            if kept.name not in self._rows:
                self._rows[kept.name] = self._compute(kept.root, clock_us)
        return None

    def files(self, root: PhysicalNode) -> Mapping[str, str]:
        """The files of the kept rows that a node and its inputs read."""
        return {node.name: self._rows[node.name].path for node in walk(root) if isinstance(node, KeptNode)}

    def index_files(self, root: PhysicalNode) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        names = (node.index for node in walk(root) if isinstance(node, LookupNode) and isinstance(node.index, str))
        return {name: (self._indexes[name][0].path, self._indexes[name][1]) for name in names}

    def rows(self, name: str) -> Rows:
        raise InternalError(f"there are no kept rows {name} in this process")

    def index(self, name: str) -> Index:
        raise InternalError(f"there is no index {name} in this process")

    def close(self) -> None:
        """Do nothing: the files are removed with the staging place."""

    def _is_made(self, index: KeptIndex, clock_us: int) -> bool:
        """False if the index is too large, which depends on its own rows alone."""
        result = self._compute(index.root, clock_us)
        if result.size + ROW_OF_INDEX * result.rows > index_memory(self._options) // index.among:
            return False
        meter = self._meters.of("Index", index.plan_path)
        meter.rows_in += result.rows
        meter.bytes_in += result.size
        meter.runs += 1
        self._indexes[index.name] = (result, index.keys)
        return True
