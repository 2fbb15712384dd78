"""The engine for Substrait plans: decodes and prepares plans, and binds static tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain
from pathlib import Path

import duckdb
import pyarrow as pa

from ...operators.core.column import schema_of
from ...operators.core.machine import usable_cpus
from ...operators.core.piece import Piece
from ...operators.core.row_reader import reader_of
from ...operators.duckdb.instances import InstancePool, InstanceSettings
from ...operators.indexes.kind import WantedIndex, named
from ...operators.indexes.sql import Database
from ...operators.sources.formats.matching import match_columns
from ...operators.sources.split_pieces import expand, open_pieces
from ...operators.write import Write
from ...planner import ir
from ...planner.decode import Decoded, decode_plan
from ...planner.dialect import dialect
from ...planner.graph.graph_structure import ordered
from ...planner.graph.lower_graph import columns_of
from ...planner.graph.prepare_graph import PreparedGraph, prepare_graph
from ...planner.ir.visit import relations
from ...planner.meaning import meaning
from ...planner.physical.sources import PlannedSource, reads
from ...planner.prepare import Prepared, prepare
from ...planner.prepare_changes import PreparedChanges, prepare_changes
from ...proto.current_call import elsewhere
from ...proto.errors import InvalidRequest, NotFound, PlanError, Problem
from ...proto.graph import Graph
from ...proto.operator_registration import UserOperators
from ...proto.spark_frames import FedFrame, FrameFeeds
from ...proto.values import (
    Capabilities,
    ExecutorKind,
    Explanation,
    FileSplit,
    InlineSplit,
    Mode,
    PlanBytes,
    SourceInfo,
    Split,
    TaskOptions,
    as_format,
    with_missing,
)
from ...proto.version import __version__
from ..api.computation import Computation, RowEffect
from ..api.engine import MakeEffect
from ..graph.graph_computation import GraphComputation
from ..graph.graph_files import file_effect
from ..graph.graph_sources import GraphFiles, find_files, opened
from ..ledger.split_book import rowless
from ..pipelines.shapes import shape_of
from ..pipelines.statement_trials import StatementTrials
from ..plans.cluster import MakeCluster
from ..plans.computation_by_size import ComputationBySize
from ..plans.continuous import ContinuousComputation
from ..plans.dataflow import PlanComputation, Resources, instance_settings
from ..plans.result_files import ResultFiles
from ..plans.static_tables import refuse_changes
from ..runtime.batch_store import SpillSpace
from ..runtime.scheduler import Scheduler
from ..runtime.side_threads import SideThreads
from ..runtime.timers import Timers
from .planning_bounds import bounded_time, while_caller_waits
from .source_schemas import SourceSchemas
from .spark_entry import SparkPlace, SparkTasks
from .written_tables import not_written, table_effect


class PlanEngine:
    """Makes computations from plans and graphs.

    - `roots`: folders that files may be read from, for every task
    - `folder`: the service's own; the tasks' folders are in it
    - `side`: the words for the place where a missing file was looked for, in messages
    - `databases`: databases whose tables plans may look rows up in, by their names in plans
    - `write_root`: the folder of tables that plans write; without one no plan may write
    - `operators`: the owner's operators that plans may name
    - `reads_ahead`: tasks may decode files on threads of their own, before they want the rows
    """

    def __init__(
        self,
        roots: Sequence[str],
        folder: Path,
        side: str = "on this machine",
        databases: Mapping[str, Database] | None = None,
        write_root: str | None = None,
        operators: UserOperators | None = None,
        spark: SparkPlace | None = None,
        reads_ahead: bool = True,
    ) -> None:
        self._roots = tuple(roots)
        self._folder = folder
        self._side = side
        self._databases = dict(databases or {})
        self._operators = dict(operators or {})
        self._lookups = SideThreads()
        self._readers = SideThreads(2 * usable_cpus(), "reader") if reads_ahead else None
        self._timers = Timers()
        self._write_root = write_root
        self._pool = InstancePool(folder / "duckdb")
        self._trials = StatementTrials(self._pool, instance_settings(TaskOptions(), (*roots, str(folder))))
        self._sparks = SparkTasks(spark or SparkPlace())

    def prepare(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[Split]],
        space: SpillSpace,
        scheduler: Scheduler,
    ) -> Computation:
        decoded = self._decoded(plan, tables, space)
        bound = _bound_names(decoded.plan, tables)
        splits = {source: tables[given_name] for given_name, source in bound.items()}
        roots = (*self._roots, str(space.files.folder))
        if options.mode is Mode.CONTINUOUS:
            changes = self._prepared_changes(decoded, options, tuple(bound.values()))
            return ContinuousComputation(
                changes,
                options,
                pool=self._pool,
                settings=self._settings(options),
                roots=roots,
                side=self._side,
                tables=_tables(changes.sources, splits, options, roots, self._side),
                write=self._table(changes.write, changes.result, changes.columns, options, space.files.folder.name),
                side_tables=self._side_tables(changes, options, space.files.folder.name),
            )
        prepared = self._prepared_epochs(decoded, options, tuple(bound.values()))
        _check_databases(prepared.plan, self._databases)
        static = _tables(prepared.sources, splits, options, roots, self._side)
        write = self._write(prepared, options, space.files.folder.name)
        cluster: MakeCluster | None = None
        if options.executor is ExecutorKind.SPARK:
            settings = self._settings(options)
            cluster = self._sparks.cluster(options, settings, static, self._databases, space.files.folder, write)
        resources = self._resources(options, space, scheduler, static, write, cluster)
        by_size = cluster is not None and not prepared.why_on_spark()
        return (ComputationBySize if by_size else PlanComputation)(prepared, options, **resources)

    def _settings(self, options: TaskOptions) -> InstanceSettings:
        return instance_settings(options, (*self._roots, str(self._folder)))

    def _resources(
        self,
        options: TaskOptions,
        space: SpillSpace,
        scheduler: Scheduler,
        tables: Mapping[str, Sequence[Piece]],
        write: RowEffect | None,
        cluster: MakeCluster | None,
    ) -> Resources:
        return {
            "pool": self._pool,
            "settings": self._settings(options),
            "roots": (*self._roots, str(space.files.folder)),
            "space": space,
            "scheduler": scheduler,
            "side": self._side,
            "tables": tables,
            "databases": self._databases,
            "lookups": self._lookups,
            "readers": self._readers,
            "later": self._timers.call_later,
            "write": write,
            "cluster": cluster,
        }

    def prepare_graph(
        self,
        graph: Graph,
        options: TaskOptions,
        space: SpillSpace,
        scheduler: Scheduler,
        effect: MakeEffect | None,
    ) -> Computation:
        prepared, files = self._prepared_graph(graph, options)
        tables = opened(files, prepared.schemas)
        write = self._graph_effect(prepared, options, space.files.folder.name, effect)
        cluster: MakeCluster | None = None
        if options.executor is ExecutorKind.SPARK:
            settings = self._settings(options)
            prepared, cluster = self._sparks.graph(prepared, options, settings, tables, space.files.folder, write)
        resources = self._resources(options, space, scheduler, tables, write, cluster)
        return GraphComputation(prepared, options, **resources)

    def _graph_effect(
        self, prepared: PreparedGraph, options: TaskOptions, task: str, effect: MakeEffect | None
    ) -> RowEffect | None:
        """The effect that a graph's rows go through: the graph's own, or that of the task's maker."""
        target = prepared.graph.target
        if target is None:
            return None if effect is None else effect(prepared.schema)
        return file_effect(target, prepared.schema, task, options)

    def explain_graph(self, graph: Graph, options: TaskOptions) -> Explanation:
        prepared, files = self._prepared_graph(graph, options)
        if options.executor is ExecutorKind.SPARK:
            self._sparks.check_code(graph)
        pieces = opened(files, prepared.schemas)
        shape = {
            name: shape_of(source_pieces, columns_of(prepared.schemas[name])) for name, source_pieces in pieces.items()
        }
        return prepared.explain(shape, options.executor)

    def _prepared_graph(self, graph: Graph, options: TaskOptions) -> tuple[PreparedGraph, GraphFiles]:
        nodes = ordered(graph)
        files = find_files(nodes, options, self._roots, self._side)
        return prepare_graph(graph, nodes, files.schemas), files

    def _write(self, prepared: Prepared, options: TaskOptions, task: str) -> RowEffect | None:
        """The effect that writes a plan's rows, if it writes any. `task` is a name that no other task has."""
        write = prepared.plan.write
        if options.result_files:
            if write is not None:
                raise InvalidRequest(
                    "result_files=True: the plan writes its rows into a table; leave result_files out",
                    reason="WRITES_NOT_ALLOWED",
                )
            return ResultFiles(prepared.schema, options.spill_quota)
        return self._table(write, prepared.schema, prepared.output, options, task)

    def _table(
        self, write: ir.Write | None, result: pa.Schema, table: pa.Schema, options: TaskOptions, task: str
    ) -> RowEffect | None:
        """The effect that writes rows of a table, if there is a write, and hands on those of the result."""
        if write is None:
            return None
        return table_effect(self._write_root, write, options, task, result=result, table=table)

    def _side_tables(self, changes: PreparedChanges, options: TaskOptions, task: str) -> list[Write]:
        """The effects that write tables beside the result."""
        return [
            table_effect(self._write_root, side.write, options, task, result=changes.result, table=side.columns)
            for side in changes.side_tables
        ]

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[Problem], Sequence[str]]:
        try:
            prepared = self._prepared(plan, options, ())
        except PlanError as error:
            return error.problems, ()
        writes = [prepared.plan.write] if isinstance(prepared, Prepared) else prepared.writes
        refused = [] if self._write_root is not None else [str(not_written(write)) for write in writes if write]
        return (), (*prepared.warnings, *refused)

    def explain(
        self, plan: PlanBytes, options: TaskOptions, static_sources: Sequence[str], rows: Mapping[str, int]
    ) -> Explanation:
        prepared = self._prepared(plan, options, static_sources)
        if isinstance(prepared, PreparedChanges):
            return prepared.explain()
        names = _bound_names(prepared.plan, rows)
        return prepared.explain({name: rows[given_name] for given_name, name in names.items()})

    def _prepared(
        self, plan: PlanBytes, options: TaskOptions, static_sources: Sequence[str]
    ) -> Prepared | PreparedChanges:
        """The plan for an answer about it. Unlike a task, nobody asks for it again after the caller has left."""
        with while_caller_waits():
            decoded = self._decoded(plan)
            bound = _bound_names(decoded.plan, static_sources)
            if options.mode is Mode.CONTINUOUS:
                return self._prepared_changes(decoded, options, tuple(bound.values()))
            return self._prepared_epochs(decoded, options, tuple(bound.values()))

    @bounded_time()
    def _prepared_epochs(self, decoded: Decoded, options: TaskOptions, static: Sequence[str]) -> Prepared:
        prepared = prepare(decoded, _with_plan_names(decoded.plan, options), static)
        self._trials.check(prepared.plan, lambda: prepared)
        return prepared

    @bounded_time()
    def _prepared_changes(self, decoded: Decoded, options: TaskOptions, static: Sequence[str]) -> PreparedChanges:
        """The plan on changes. Its statements have the forms of those of a task per epoch, which are tried instead."""
        changes = prepare_changes(decoded, options, static)
        plan = replace(decoded.plan, side_tables=())
        self._trials.check(plan, lambda: prepare(plan, replace(options, mode=Mode.PER_EPOCH), static))
        return changes

    @bounded_time()
    def _decoded(
        self, plan: PlanBytes, tables: Mapping[str, Sequence[Split]] | None = None, space: SpillSpace | None = None
    ) -> Decoded:
        roots = self._roots if space is None else (*self._roots, str(space.files.folder))
        schemas = SourceSchemas(tables=tables or {}, roots=roots, side=self._side)
        return decode_plan(plan, operators=self._operators, schemas=schemas)

    def capabilities(self) -> Capabilities:
        return Capabilities(version=__version__, dialect=dialect(), engines=self.versions())

    def meaning(self, plan: PlanBytes, tables: Mapping[str, Sequence[Split]], space: SpillSpace) -> str:
        return meaning(self._decoded(plan, tables, space).plan)

    def versions(self) -> Mapping[str, str]:
        return {"duckdb": duckdb.__version__, "pyarrow": pa.__version__}

    def over_frames(self, plan: PlanBytes, options: TaskOptions, feeds: FrameFeeds) -> object:
        prepared = self._prepared_epochs(self._decoded(plan), options, ())
        if prepared.plan.write is not None:
            raise InvalidRequest(
                "the plan writes a table, and a DataFrame has rows: leave the write out, or run the plan as a task",
                reason="WRITES_NOT_ALLOWED",
            )
        _check_databases(prepared.plan, self._databases)
        fed = feeds.sources(
            [
                SourceInfo(name=source.name, schema=schema_of(source.columns), static=source.static, split_kinds=())
                for source in prepared.sources
            ]
        )
        files: dict[str, Sequence[Piece]] = dict(_tables(prepared.sources, {}, options, self._roots, self._side))
        for source in prepared.sources:
            if isinstance(splits := fed.get(source.name), list):
                files[source.name] = _table(source, splits, self._roots, self._side)
        return self._sparks.over_frames(
            feeds.session,
            prepared,
            options,
            self._settings(options),
            self._databases,
            {name: frame for name, frame in fed.items() if isinstance(frame, FedFrame)},
            files,
            feeds.result(prepared.schema),
            self._folder / f"frames-{uuid.uuid4().hex}",
        )

    def adopt_spark(self, session: object) -> str:
        return self._sparks.adopt(session)

    def cores(self, options: TaskOptions, *, start: bool) -> int:
        on_spark = options.executor is ExecutorKind.SPARK
        there = self._sparks.cores(options.spark, start=start) if on_spark else None
        return there or usable_cpus()

    def close(self) -> None:
        self._sparks.close()
        self._timers.close()
        self._lookups.close()
        if self._readers is not None:
            self._readers.close()
        self._pool.close()


def _check_databases(plan: ir.Plan, databases: Mapping[str, Database]) -> None:
    for root in (plan.root, *plan.shared):
        for relation in relations(root):
            if isinstance(relation, ir.IndexLookup) and "database" in relation.index.options:
                wanted = WantedIndex(name=relation.right.plan_path, keys=(), columns=())
                named("database", relation.index.options["database"], databases, wanted)


def _with_plan_names(plan: ir.Plan, options: TaskOptions) -> TaskOptions:
    """The options, with sources spelled as in the plan."""
    return replace(options, broadcast=tuple(_bound_names(plan, options.broadcast).values()))


def _bound_names(plan: ir.Plan, names: Mapping[str, object] | Sequence[str]) -> dict[str, str]:
    """The plan's spelling of each name of a static source: the exact name, or one that differs by case alone."""
    known = sorted({read.source for read in reads(plan) if isinstance(read, ir.Read)}) if names else []
    bound: dict[str, str] = {}
    for name in names:
        alike = (
            [name] if name in known else [candidate for candidate in known if candidate.casefold() == name.casefold()]
        )
        if len(alike) != 1:
            raise NotFound(
                f"table {name!r} is {'ambiguous' if alike else 'not read by the plan'}; the plan's sources are: "
                f"{', '.join(known) or 'none'}",
                reason="UNKNOWN_SOURCE",
            )
        bound[name] = alike[0]
    return bound


def _tables(
    sources: Sequence[PlannedSource],
    splits: Mapping[str, Sequence[Split]],
    options: TaskOptions,
    roots: Sequence[str],
    side: str,
) -> dict[str, tuple[Piece, ...]]:
    """The pieces of each static source, opened."""

    def splits_of(source: PlannedSource) -> Iterator[Split]:
        named = map(_named_file, source.items)
        return (with_missing(split, options.missing_columns) for split in splits.get(source.name, named))

    return {source.name: _table(source, splits_of(source), roots, side) for source in sources if source.static}


def _table(source: PlannedSource, splits: Iterable[Split], roots: Sequence[str], side: str) -> tuple[Piece, ...]:
    """The pieces of a static source, opened."""
    splits = tuple(splits)
    has_files = any(isinstance(split, FileSplit) for split in splits)
    with elsewhere() if has_files else nullcontext():
        pieces = chain.from_iterable(_pieces(source, split, roots, side) for split in splits)
        return open_pieces(tuple(pieces), source.columns)


def _pieces(source: PlannedSource, split: Split, roots: Sequence[str], side: str) -> Sequence[Piece]:
    origin = f"table {source.name!r}"
    refuse_changes(split, origin)
    match split:
        case FileSplit():
            return expand(split, roots, origin, side=side)
        case InlineSplit():
            rows = sum(batch.num_rows for batch in split.batches)
            read = reader_of(split.batches)
            piece = replace(rowless(split, origin), read=read, rows=(0, rows), row_count=rows)
            match_columns(source.columns, split.schema, piece)
            return (piece,)


def _named_file(item: ir.FileItem) -> FileSplit:
    """A file that the plan itself names."""
    if item.start or item.length:
        raise InvalidRequest(
            f"the plan names bytes {item.start} to {item.start + item.length} of {item.path}; only whole files can "
            "be read: leave start and length out",
            reason="UNSUPPORTED_BYTE_RANGE",
        )
    return FileSplit(path=item.path, format=as_format(item.format))
