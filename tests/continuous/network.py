"""Plans by hand as continuous computations, without a task around them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from tidegate.executor.changes.build_graph import EntrySource, graph_of
from tidegate.executor.plans.continuous import ContinuousComputation
from tidegate.executor.plans.dataflow import instance_settings
from tidegate.operators.changes.network.network import Network
from tidegate.operators.changes.values.evaluator import Evaluators
from tidegate.operators.core.piece import InlinePiece
from tidegate.operators.core.row_reader import reader_of
from tidegate.operators.duckdb.instances import Instance, InstancePool
from tidegate.planner import ir
from tidegate.planner.prepare_changes import PreparedChanges, prepare_changes
from tidegate.proto.values import Mode, OnError, TaskOptions

from .histories import WEIGHT, Changed, table


@dataclass(frozen=True)
class Decoded:
    plan: ir.Plan
    warnings: tuple[str, ...] = ()


def prepared(plan: ir.Plan, channels: int = 1, *, skips: bool = False) -> PreparedChanges:
    on_error = OnError.SKIP_EPOCH if skips else OnError.FAIL
    return prepare_changes(Decoded(plan), TaskOptions(mode=Mode.CONTINUOUS, channels=channels, on_error=on_error))


@cache
def _pool() -> InstancePool:
    return InstancePool(Path(tempfile.mkdtemp(prefix="tidegate-continuous-")))


def bare(plan: ir.Plan, channels: int) -> tuple[Network, Sequence[tuple[str, Sequence[str]]]]:
    """The network of a plan's operators; for each of its entries the source and its columns."""
    prepared_plan = prepared(plan, channels)
    entries = {
        source.name: EntrySource(
            port=port, schema=pa.schema([pa.field(column.name, column.type) for column in source.columns])
        )
        for port, source in enumerate(prepared_plan.sources)
    }
    network = Network(graph_of(prepared_plan.root, entries, Evaluators(_instance)), channels)
    return network, [(name, entry.schema.names) for name, entry in entries.items()]


@cache
def _instance() -> Instance:
    return _pool().take(instance_settings(TaskOptions(), ()))


class Running:
    """A computation; `epoch` feeds changes of its sources and gives how the result has changed. One that `skips` is as
    it was before where an epoch fails, or is not to be kept.
    """

    def __init__(self, plan: ir.Plan, channels: int = 1, *, skips: bool = False) -> None:
        prepared_plan = prepared(plan, channels, skips=skips)
        settings = instance_settings(prepared_plan.options, ())
        self.watermark: int | None = None
        self.computation = ContinuousComputation(
            prepared_plan, prepared_plan.options, pool=_pool(), settings=settings, roots=(), side="here", tables={}
        )

    def epoch(
        self,
        changed: Mapping[str, Changed],
        schemas: Mapping[str, pa.Schema],
        *,
        keep: bool = True,
        watermarks: Mapping[str, int | None] | None = None,
    ) -> pa.Table:
        pieces = {name: [_piece(rows, schemas[name])] for name, rows in changed.items()}
        known = {source.name for source in self.computation.sources}
        run = self.computation.epoch(1, 0)
        try:
            fed = {name: piece_list for name, piece_list in pieces.items() if name in known}
            batches = list(run.sealed(fed, watermarks or {}))
        except BaseException:
            keep = False
            raise
        finally:
            if run.effect is not None:
                run.effect.commit() if keep else run.effect.drop()
        self.watermark = run.watermark
        return pa.Table.from_batches(batches, self.computation.schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.computation.close()


def _piece(changed: Changed, schema: pa.Schema) -> InlinePiece:
    weighed = schema.append(pa.field(WEIGHT, pa.int64()))
    rows: Sequence[tuple[object, ...]] = [(*row, weight) for row, weight in changed]
    batches = tuple(table(rows, weighed).to_batches(max_chunksize=4))
    count = len(changed)
    return InlinePiece(
        read=reader_of(batches),
        schema=weighed,
        origin="a split",
        rows=(0, count),
        row_count=count,
        change_column=WEIGHT,
    )
