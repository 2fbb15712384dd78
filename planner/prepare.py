"""Prepares a decoded plan: checks, rewrites and divides it. Pipelines are then made once per shape."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

import pyarrow as pa

from ..operators.core.column import Column
from ..proto.errors import PlanError, Problem
from ..proto.values import Determinism, ExecutorKind, Explanation, TaskOptions
from . import ir
from .choose.choose_loops import choose_loops
from .choose.sliding_operators import use_sliding_operators
from .choose.sorted_operators import use_sorted_operators
from .cut.cut import cut
from .cut.divide import Division, divide
from .cut.fragments import Making
from .cut.operated import check_loops
from .distribution.origins import Key, equated
from .explain.explain_channels import Spread
from .explain.explain_plan import explain
from .explain.explanation_text import ROWS
from .ir import arrow_types as sql_types
from .ir.visit import relations
from .physical.pipelines import NOTHING, Feed, PhysicalPlan, Shape, SourceShape
from .physical.size_classes import size_class
from .physical.sources import PlannedSource, check, sources
from .rewrite import rewrite
from .rewrite.prune_columns import prune_columns
from .rewrite.split_expressions import split_expressions

IsStatic: TypeAlias = Callable[[ir.Read], bool]
_VALUE_BYTES: Final = 8
"""The bytes of a value of a source of which only the number of rows is known."""

Check: TypeAlias = Callable[[], object]
"""A check of a plan. It raises `PlanError` with the problems it finds."""


class Decoded(Protocol):
    """The result of decoding: the plan, and warnings for a person."""

    @property
    def plan(self) -> ir.Plan: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...


class Planned(Protocol):
    """A runnable computation: a `Prepared` plan, or a graph of your own operators.

    `physical` is pure. `relevant` gives the part of a shape that `physical` depends on.
    """

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def sources(self) -> tuple[PlannedSource, ...]: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    def owned_versions(self) -> Mapping[str, str | None]:
        """The versions of what the plan names and the service's owner has: registered operators, and the tables that
        look-ups know by themselves. None for these: such a table may change at any time.
        """
        ...

    def relevant(self, shape: Shape) -> Shape: ...

    def physical(self, shape: Shape, without: Container[str] = ()) -> PhysicalPlan: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prepared:
    """A plan ready to be run for any shape of its sources. Immutable; `physical` is pure and linear in the plan."""

    plan: ir.Plan
    options: TaskOptions
    schema: pa.Schema
    sources: tuple[PlannedSource, ...]
    warnings: tuple[str, ...]
    division: Division
    output: pa.Schema
    keys: Mapping[Key, int]
    without_rows: PhysicalPlan | None = None
    """The pipelines for sources without rows. They show that the plan has SQL: statements differ between shapes in
    their leaves alone.
    """

    def owned_versions(self) -> Mapping[str, str | None]:
        versions: dict[str, str | None] = {}
        for root in (self.plan.root, *self.plan.shared):
            for relation in relations(root):
                match relation:
                    case ir.User():
                        versions[f"operator {relation.name!r}"] = relation.version
                    case ir.IndexTable():
                        versions[f"the table at {relation.plan_path}"] = None
        return versions

    def why_on_spark(self) -> str:
        """Why no epoch may run in the service of a task on Spark, however few its rows are; "" if small ones may.

        The service opens all files of an epoch itself, so it can read all rows. What else an epoch needs may be on the
        executors alone.
        """
        if self.options.spark_threshold_bytes == 0:
            return "spark_threshold_bytes is 0"
        if self.plan.write is not None or self.options.result_files:
            return "the executors write its rows"
        owned = next(iter(self.owned_versions()), None)
        return "" if owned is None else f"the executors have {owned}"

    def in_service(self) -> Prepared:
        """The plan as a task without Spark runs it, with the same options otherwise."""
        local = replace(self, options=replace(self.options, executor=ExecutorKind.LOCAL), without_rows=None)
        return replace(local, without_rows=local.physical({source.name: NOTHING for source in self.sources}))

    def relevant(self, shape: Shape) -> Shape:
        return shape

    def physical(self, shape: Shape, without: Container[str] = ()) -> PhysicalPlan:
        """Pipelines for an epoch whose sources have this shape. `shape` has every source of the plan. No join becomes a
        look-up in an index named in `without`.
        """
        if self.without_rows is not None and not without and all(source == NOTHING for source in shape.values()):
            return self.without_rows
        columns = {source.name: {column.name: column for column in source.columns} for source in self.sources}
        making = Making(
            shared=self.division.shared,
            indexes=self.division.indexes,
            columns=columns,
            shape=shape,
            keys=self.keys,
            strict=self.options.determinism is Determinism.STRICT,
        )
        return cut(self.division, making, self.output, self.options, without)

    def explain(self, rows: Mapping[str, int] | None = None) -> Explanation:
        """The plan explained to people and programs: relations, pipelines, fragments, and the reasons. `rows` gives the
        number of rows of each source.
        """
        sizes = {source.name: (rows or {}).get(source.name, ROWS) for source in self.sources}
        cut = self.options.channels > 1 or self.options.executor is ExecutorKind.SPARK
        spread = self._spread(sizes) if cut else None
        why = self.why_on_spark()
        return explain(self.plan, self.division, self.sources, self.schema, self.options, spread, why)

    def _spread(self, rows: Mapping[str, int]) -> Spread:
        """The pipelines for sources of `rows` rows each, with nothing else known of the sources."""
        channels = self.options.channels
        columns = {source.name: len(source.columns) for source in self.sources}
        shape = {
            name: SourceShape(
                feed=Feed.FILES,
                size_class=size_class(count, channels),
                byte_class=size_class(count * columns[name] * _VALUE_BYTES, channels) if channels > 1 else 0,
            )
            for name, count in rows.items()
        }
        return Spread(
            physical=self.physical(shape),
            rows=rows,
            threshold_seconds=self.options.parallel_threshold_seconds,
            kept=self.division.uses,
        )


def prepare(decoded: Decoded | ir.Plan, options: TaskOptions, static: Collection[str] = ()) -> Prepared:
    """Prepares a plan for any shape of its sources.

    `static` names the sources that are bound for the task's life, as the plan spells the names; files that the plan
    itself names are always static. Raises `PlanError` with every problem that keeps the plan from being run, for
    whatever shape.
    """
    plan, warnings = (decoded, ()) if isinstance(decoded, ir.Plan) else (decoded.plan, decoded.warnings)
    names = frozenset(static)

    def is_static(read: ir.Read) -> bool:
        return read.source in names

    try:
        return _prepared(plan, options, is_static, tuple(warnings))
    except PlanError as error:
        raise PlanError(*problems_of(plan, _checks(plan, is_static, options), error)) from error


def _check_side_tables(plan: ir.Plan) -> None:
    """Refuses tables beside the result: a task per epoch writes its result alone."""
    for side in plan.side_tables:
        message = (
            "a per-epoch task writes no table beside its result: run the plan as a continuous task, or write the table "
            "in a task of its own"
        )
        raise PlanError(Problem(place=side.write.plan_path, reason="SIDE_TABLE_PER_EPOCH", message=message))


def _prepared(plan: ir.Plan, options: TaskOptions, is_static: IsStatic, warnings: tuple[str, ...]) -> Prepared:
    check(plan)
    _check_side_tables(plan)
    several = options.channels > 1
    rewritten = rewrite(plan, narrow=several)
    keys: Mapping[Key, int] = equated((rewritten.root,), rewritten.shared) if several else {}
    rewritten = use_sorted_operators(choose_loops(rewritten, options))
    if not several:
        rewritten = use_sliding_operators(rewritten)
    planned = sources(rewritten, is_static, plan)
    if keys:
        planned = tuple(_with_keys(source, keys) for source in planned)
    output = columns_of(rewritten)
    prepared = Prepared(
        plan=rewritten,
        options=options,
        schema=result_columns(rewritten.write, output),
        sources=planned,
        warnings=warnings,
        division=divide(rewritten, is_static),
        output=output,
        keys=keys,
    )
    return replace(prepared, without_rows=prepared.physical({source.name: NOTHING for source in planned}))


def _with_keys(source: PlannedSource, keys: Mapping[Key, int]) -> PlannedSource:
    def with_keys(column: Column) -> Column:
        mine = [key for key in keys if (key.source, key.column) == (source.name, column.name)]
        slices = tuple(sorted(key.slices for key in mine if key.slices is not None))
        return replace(column, key=any(key.slices is None for key in mine), slices=slices)

    return replace(source, columns=tuple(map(with_keys, source.columns)))


def _checks(plan: ir.Plan, is_static: IsStatic, options: TaskOptions) -> Sequence[Check]:
    return (
        lambda: check(plan),
        lambda: sources(prune_columns(plan), is_static),
        lambda: split_expressions(plan),
        lambda: divide(plan, is_static),
        lambda: check_loops(choose_loops(plan, options)),
    )


def problems_of(plan: ir.Plan, checks: Sequence[Check], first: PlanError) -> Sequence[Problem]:
    """The problems that each check finds on its own in the plan, then the problem that stopped the planning."""
    problems: dict[Problem, None] = {}
    for run_check in checks:
        try:
            run_check()
        except PlanError as error:
            problems.update(dict.fromkeys(error.at(plan.root.plan_path).problems))
    problems.update(dict.fromkeys(first.at(plan.root.plan_path).problems))
    return tuple(problems)


def result_columns(write: ir.Write | None, rows: pa.Schema) -> pa.Schema:
    """The columns that a reader of the task gets: the plan's, or those that the plan's write returns."""
    if write is None:
        return rows
    return pa.schema([rows.field(at).with_name(name) for at, name in zip(write.columns, write.names, strict=True)])


def columns_of(plan: ir.Plan) -> pa.Schema:
    """The schema of the plan's rows, under the plan's names."""
    return sql_types.schema(plan.root.schema, plan.names)
