"""The sources of a plan: all reads of one name are one source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ...operators.changes.event_time.row_watermarks import EventTime
from ...operators.core.column import Column
from ...proto.errors import PlanError, Problem
from .. import ir
from ..ir.arrow_types import UnsupportedType, arrow_type, parts_of_tick, ticks_of
from ..ir.types import Type, required
from ..ir.visit import relations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedSource:
    """A source of a plan. `columns` are the columns that the plan uses, and no others. `items` are the files of a
    source that the plan itself names. `plan_paths` are those of its reads. `event_time` is the watermark that the plan
    declares.
    """

    name: str
    columns: tuple[Column, ...]
    static: bool
    items: tuple[ir.FileItem, ...] = ()
    plan_paths: tuple[str, ...] = ()
    event_time: EventTime | None = None


def check(plan: ir.Plan) -> None:
    """Raises `PlanError` if reads of one source disagree about a column's type."""
    problems: list[Problem] = []
    first: dict[tuple[str, str], tuple[Type, str]] = {}
    for read in reads(plan):
        for name, type_ in zip(read.names, read.schema, strict=True):
            other, plan_path = first.setdefault((read.source, name), (type_, read.plan_path))
            if required(other) != required(type_):
                text = f"column {name!r} of source {read.source!r} is {type_} here, but {other} at {plan_path}"
                problems.append(_problem(read, "SCHEMA_CONFLICT", text))
    if problems:
        raise PlanError(*problems)


def sources(
    plan: ir.Plan, static: Callable[[ir.Read], bool], original: ir.Plan | None = None
) -> tuple[PlannedSource, ...]:
    """Every source once, in plan order. A column is nullable if every read of it says so. A source that is read only in
    `original`, the plan before its rewrites, is a source without columns, and is fed. Raises `PlanError` for
    columns of types that cannot be carried.
    """
    kept = reads(plan)
    used = {read.source for read in kept}
    of_source: dict[str, list[ir.Read | ir.LocalFiles]] = {}
    for read in (*kept, *(read for read in reads(original or plan) if read.source not in used)):
        of_source.setdefault(read.source, []).append(read)
    problems: list[Problem] = []
    planned = tuple(_planned(name, leaves, static, problems, used=name in used) for name, leaves in of_source.items())
    if problems:
        raise PlanError(*problems)
    return planned


def _planned(
    name: str,
    leaves: Sequence[ir.Read | ir.LocalFiles],
    static: Callable[[ir.Read], bool],
    problems: list[Problem],
    *,
    used: bool,
) -> PlannedSource:
    """The source of all these reads."""
    columns: dict[str, Column] = {}
    for read in leaves if used else ():
        for column in _columns(read, problems):
            if column.nullable < columns.setdefault(column.name, column).nullable:
                columns[column.name] = column
    first = leaves[0]
    return PlannedSource(
        name=name,
        columns=tuple(columns.values()),
        static=isinstance(first, ir.LocalFiles) or static(first),
        items=first.items if isinstance(first, ir.LocalFiles) else (),
        plan_paths=tuple(read.plan_path for read in leaves),
        event_time=_event_time(leaves, problems),
    )


def _event_time(leaves: Sequence[ir.Read | ir.LocalFiles], problems: list[Problem]) -> EventTime | None:
    """The watermark that reads of a source declare."""
    first: tuple[EventTime, str] | None = None
    for read in leaves:
        if read.watermark is None:
            continue
        declared = _watermark(read, read.watermark)
        if first is not None and declared != first[0]:
            text = f"the watermark of source {read.source!r} is not the one that is declared at {first[1]}"
            problems.append(_problem(read, "WATERMARK_CONFLICT", text))
        first = first or (declared, read.plan_path)
    return None if first is None else first[0]


def _watermark(read: ir.Read | ir.LocalFiles, watermark: ir.RowWatermark) -> EventTime:
    type_ = read.schema[watermark.column]
    return EventTime(
        column=read.names[watermark.column],
        delay=watermark.delay,
        ahead=watermark.ahead,
        idle=watermark.idle,
        parts=parts_of_tick(type_),
        ticks=ticks_of(type_),
    )


def reads(plan: ir.Plan) -> Sequence[ir.Read | ir.LocalFiles]:
    """All leaf reads, in plan order."""
    return [
        relation
        for root in (plan.root, *plan.shared)
        for relation in relations(root)
        if isinstance(relation, ir.Read | ir.LocalFiles)
    ]


def _columns(read: ir.Read | ir.LocalFiles, problems: list[Problem]) -> Iterator[Column]:
    for name, type_ in zip(read.names, read.schema, strict=True):
        try:
            yield Column(name=name, type=arrow_type(type_), nullable=type_.nullable)
        except UnsupportedType as error:
            problems.append(_problem(read, error.reason, f"column {name!r} of source {read.source!r}: {error}"))


def _problem(read: ir.Read | ir.LocalFiles, reason: str, message: str) -> Problem:
    return Problem(place=read.plan_path, reason=reason, message=message)
