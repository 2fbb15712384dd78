"""The sources of a plan: all reads of one name are one source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..operators.column import Column
from ..proto.errors import PlanError, Problem
from . import ir
from .sql.types import UnsupportedType, arrow_type
from .types import Type, required
from .visit import relations


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlannedSource:
    """`columns` are those that the plan uses, and no others. `items` are the files of a source that the plan names
    itself. `places` are its reads.
    """

    name: str
    columns: tuple[Column, ...]
    static: bool
    items: tuple[ir.FileItem, ...] = ()
    places: tuple[str, ...] = ()


def check(plan: ir.Plan) -> None:
    """Raises `PlanError` when reads of one source disagree about a column's type."""
    problems: list[Problem] = []
    first: dict[tuple[str, str], tuple[Type, str]] = {}
    for read in reads(plan):
        for name, type_ in zip(read.names, read.schema, strict=True):
            other, place = first.setdefault((read.source, name), (type_, read.place))
            if required(other) != required(type_):
                text = f"column {name!r} of source {read.source!r} is {type_} here, but {other} at {place}"
                problems.append(_problem(read, "SCHEMA_CONFLICT", text))
    if problems:
        raise PlanError(*problems)


def sources(
    plan: ir.Plan, static: Callable[[ir.Read], bool], given: ir.Plan | None = None
) -> tuple[PlannedSource, ...]:
    """Every source once, in plan order. A column is nullable when every read of it says so. A source that is read only
    in `given`, the plan before it was rewritten, is a source without columns: it is fed all the same. Raises
    `PlanError` for the columns of types that cannot be carried.
    """
    found: dict[str, PlannedSource] = {}
    problems: list[Problem] = []
    kept = reads(plan)
    used = {read.source for read in kept}
    for read in (*kept, *(read for read in reads(given or plan) if read.source not in used)):
        mine = tuple(_columns(read, problems)) if read.source in used else ()
        known = found.get(read.source)
        if known is not None:
            columns = _merged(known.columns, mine)
            found[read.source] = replace(known, columns=columns, places=(*known.places, read.place))
            continue
        named = read.items if isinstance(read, ir.LocalFiles) else ()
        found[read.source] = PlannedSource(
            name=read.source,
            columns=mine,
            static=isinstance(read, ir.LocalFiles) or static(read),
            items=named,
            places=(read.place,),
        )
    if problems:
        raise PlanError(*problems)
    return tuple(found.values())


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


def _merged(known: Sequence[Column], more: Sequence[Column]) -> tuple[Column, ...]:
    columns = {column.name: column for column in known}
    for column in more:
        old = columns.get(column.name, column)
        columns[column.name] = replace(old, nullable=old.nullable and column.nullable)
    return tuple(columns.values())


def _problem(read: ir.Read | ir.LocalFiles, reason: str, message: str) -> Problem:
    return Problem(place=read.place, reason=reason, message=message)
