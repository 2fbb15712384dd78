"""Graphs in a service that runs in the process of user code."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from ...proto.dataset import Dataset, Keyed
from ...proto.errors import InvalidRequest, NotFound
from ...proto.graph import Graph, RowBatches
from ...proto.values import ExecutorKind, Explanation, Mode, TaskInfo, TaskOptions
from ..api.checked_options import check_options
from ..api.computation import Computation
from ..api.engine import Engine, MakeEffect
from ..datasets.dataset_writer import dataset_of
from ..datasets.sink import AdoptingSink, DatasetSink
from ..runtime.batch_store import SpillSpace
from ..runtime.scheduler import Scheduler

Prepare = Callable[[SpillSpace, Scheduler], Computation]


class Tasks(Protocol):
    """Starts and finds tasks."""

    def start(self, options: TaskOptions, prepare: Prepare) -> str: ...

    def get_task(self, task: str) -> TaskInfo: ...


class Graphs:
    """Implements `proto.graph.GraphService`. Datasets are in folders beside the service's folder, below `parent`."""

    def __init__(self, tasks: Tasks, engine: Engine, parent: Path) -> None:
        self._tasks = tasks
        self._engine = engine
        self._parent = parent
        self._sinks: dict[str, DatasetSink] = {}
        self._lock = threading.Lock()

    def create_task(
        self, graph: Graph, options: TaskOptions, *, keep: bool = False, keyed: Keyed | None = None
    ) -> TaskInfo:
        _check(options)
        if keep and graph.target is not None:
            raise InvalidRequest(
                "the graph ends in files, so there are no rows to keep as a Dataset: run the graph as a task "
                "(client.create_task(graph), task.run_epoch(splits))",
                reason="GRAPH_WRITES",
            )
        sinks: list[DatasetSink] = []

        def sink(schema: pa.Schema) -> DatasetSink:
            kind = DatasetSink if options.executor is ExecutorKind.LOCAL else AdoptingSink
            sinks.append(kind(schema, self._parent, keyed))
            return sinks[-1]

        effect: MakeEffect | None = sink if keep else None
        identity = self._tasks.start(
            options, lambda space, scheduler: self._engine.prepare_graph(graph, options, space, scheduler, effect)
        )
        if sinks:
            with self._lock:
                self._sinks[identity] = sinks[0]
        return self._tasks.get_task(identity)

    def take(self, task: str, epoch: int) -> Dataset:
        with self._lock:
            sink = self._sinks.get(task)
        if sink is None:
            raise NotFound(f"task {task!r} keeps no Datasets, or has been deleted", reason="UNKNOWN_DATASET")
        return sink.take(epoch)

    def keep(self, rows: RowBatches, keyed: Keyed | None = None) -> Dataset:
        return dataset_of(rows.schema, rows.batches, self._parent, keyed)

    def explain(self, graph: Graph, options: TaskOptions) -> Explanation:
        return self._engine.explain_graph(graph, _check(options))

    def forget(self, task: str) -> None:
        """Forget a task that is gone."""
        with self._lock:
            self._sinks.pop(task, None)


def _check(options: TaskOptions) -> TaskOptions:
    if options.mode is Mode.CONTINUOUS:
        raise InvalidRequest(
            "a graph cannot run in continuous mode, because its executors return rows, not changes; leave "
            'mode="continuous" out',
            reason="GRAPH_OPTION",
        )
    if options.channels != 1:
        raise InvalidRequest(
            f"channels={options.channels or 'auto'} is not an option of a graph: give each node its channels",
            reason="GRAPH_OPTION",
        )
    return check_options(options)
