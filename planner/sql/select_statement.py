"""One fragment's SQL: a relation and all relations below it, down to the fragment's inputs, as one SELECT.

The statement starts with SELECT, never with WITH, so that its runner may put common table expressions for the inputs
before it. Inputs are relations called src0, src1, ... (sources that the fragment reads itself), in0, in1, ... (streams)
and `context` (clock values, one row), all with columns c0, c1, ...
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, assert_never

from ...proto.errors import InternalError, PlanError
from .. import ir
from ..analysis.recursions import fixed
from ..ir import tree
from ..ir import types as t
from ..ir.visit import subqueries_of
from ..ir.walk import unroll
from .correlated_subqueries import CorrelatedSubqueries
from .growth_guards import Passing
from .relations.aggregate import select_aggregate
from .relations.cross import select_cross
from .relations.expand import select_expand
from .relations.fetch import select_fetch
from .relations.filter import select_filter
from .relations.final_aggregate import select_final_aggregate
from .relations.join import select_join
from .relations.lateral_join import select_lateral_join
from .relations.partial_aggregate import select_partial_aggregate
from .relations.project import select_project
from .relations.recursion import RecursionNames, materialized, rows_of, select_recursion
from .relations.set import select_set
from .relations.sliding_aggregate import select_final_sliding_aggregate, select_sliding_aggregate
from .relations.sort import select_sort
from .relations.topn import select_topn
from .relations.values import select_values
from .relations.window import select_window
from .sql_scope import TextScope
from .table import Direct, Table, gathered, numbered, select_list
from .writer import Writer

CONTEXT: Final = "context"
"""The one-row relation of clock values. A statement reads it once, into `CLOCK`."""

CLOCK: Final = "clock"
"""The statement's copy of `CONTEXT`. Expressions read the copy as often as they need."""


class Leaves(Protocol):
    """The leaves of a statement: relations that it reads instead of rendering. Each answer becomes an input of the
    fragment.
    """

    def read(self, relation: ir.Read | ir.LocalFiles) -> tuple[str, Sequence[str]]:
        """The input relation that holds a source, and the names of the read's columns in it."""
        ...

    def edge(self, relation: ir.Relation) -> str | None:
        """The input relation that holds this relation's rows, if another fragment computes them; else None."""
        ...

    def clock(self, variable: ir.Clock) -> str:
        """The column of `context` and `clock` that holds a clock value."""
        ...

    @property
    def reads_clock(self) -> bool: ...


_Written: TypeAlias = (
    ir.Read
    | ir.LocalFiles
    | ir.Values
    | ir.Filter
    | ir.Project
    | ir.Fetch
    | ir.Sort
    | ir.TopN
    | ir.Aggregate
    | ir.Join
    | ir.LateralJoin
    | ir.Cross
    | ir.Set
    | ir.Window
    | ir.Expand
    | ir.SlidingAggregate
    | ir.FinalSlidingAggregate
    | ir.PartialAggregate
    | ir.FinalAggregate
)
"""Every relation that a function renders.

The others are `Shared` and `Recursion`, which need definitions first, `Reference`, which reads such a definition, and
the relations that are never inside a fragment.
"""


@dataclass(frozen=True, slots=True)
class _Inside:
    """The common table expressions of the recursions around a relation. `came_back` has the rows that came back to a
    loop, by its number; `fixed` the rows that are the same in every round, by the relation.
    """

    came_back: Mapping[int, str] = field(default_factory=dict)
    fixed: Mapping[ir.Relation, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Visit:
    """A relation to render. `is_joined` says whether rows that come of it are joined or grouped in this statement,
    `hands_out` whether the statement hands them out as they come.
    """

    relation: ir.Relation
    outer: tuple[tuple[str, ...], ...]
    inside: _Inside = field(default_factory=_Inside)
    is_joined: bool = False
    hands_out: bool = False


class Statement:
    """Renders one fragment. `shared` are the plan's common subtrees. Each subtree in use becomes a MATERIALIZED common
    table expression, so that all its uses see the same rows.
    """

    def __init__(self, leaves: Leaves, shared: Sequence[ir.Relation]) -> None:
        self._leaves = leaves
        self._shared = shared
        self._aliases: Iterator[int] = itertools.count(1)
        self._root: ir.Relation | None = None
        self._result: ir.Recursion | None = None
        self._passing: Passing | None = None
        self._common: dict[int, str] = {}
        self._direct: dict[str, Direct] = {}
        self._correlated = CorrelatedSubqueries()
        self.relations = 0
        self.collects = False
        self.loops: dict[int, ir.Recursion] = {}

    def select(self, root: ir.Relation, *, result: ir.Recursion | None = None, row_wise: bool = False) -> str:
        """The SELECT of a fragment. The fields of structs have no names of the plan in it.

        A fragment's own root is rendered even if it is an edge to other fragments. If the root is the loop `result`,
        the statement neither sorts nor counts its rows: it gives up to one row more than the limit. A `row_wise`
        fragment makes each row of one row that comes in.
        """
        self._passing = Passing() if row_wise else None
        self._root = root
        self._result = result
        select = unroll(self._step, _Visit(root, (), hands_out=True))
        common = [f"s{at}({_names(self._shared[at])}) AS MATERIALIZED ({text})" for at, text in self._common.items()]
        if self._leaves.reads_clock:
            common.insert(0, f"{CLOCK} AS MATERIALIZED (SELECT * FROM {CONTEXT})")
        return f"SELECT * FROM (WITH {', '.join(common)} {select})" if common else select

    def _clock(self, variable: ir.Clock) -> str:
        return f"(SELECT {self._leaves.clock(variable)} FROM {CLOCK})"

    def _step(self, visit: _Visit) -> Generator[_Visit, str, str]:
        relation, outer, inside = visit.relation, visit.outer, visit.inside
        if relation in inside.fixed:
            return rows_of(inside.fixed[relation], len(relation.schema))
        edge = None if relation is self._root else self._leaves.edge(relation)
        if edge is not None:
            return self._columns_of(edge, [f"c{at}" for at in range(len(relation.schema))])
        self.relations += 1
        self.collects |= _collects(relation)
        if isinstance(relation, ir.Shared):
            return (yield from self._shared_use(relation))
        if isinstance(relation, ir.Reference):
            return rows_of(inside.came_back[relation.loop], len(relation.schema))
        if isinstance(relation, ir.Recursion):
            return (yield from self._recursion(relation, visit))
        if isinstance(relation, ir.Exchange | ir.IndexTable | ir.Operated | ir.Iterate | ir.LoopInput | ir.OfTime):
            raise InternalError(f"{relation.plan_path}: {type(relation).__name__} inside a fragment")
        tables: list[Table] = []
        is_joined = visit.is_joined or _joins(relation)
        hands_out = visit.hands_out and _passes_on(relation)
        for below in tree.inputs(relation):
            around = (tables[0].columns, *outer) if isinstance(relation, ir.LateralJoin) and tables else outer
            select = yield _Visit(below, around, inside, is_joined, hands_out)
            if visit.is_joined and _has_partitions(relation):
                select = gathered(select)
            direct = (
                None if isinstance(relation, ir.LateralJoin) else self._direct.get(select)
            )  # LATERAL asks for a SELECT
            tables.append(numbered(self._aliases, select, len(below.schema), direct))
        rows = (tuple(column for table in tables for column in table.columns), *outer)
        inner: dict[ir.Relation, str] = {}
        for subquery in subqueries_of(relation):
            inner[subquery.relation] = yield _Visit(subquery.relation, rows, inside, True)
        self._correlated.count(relation)
        scope = TextScope(
            rows=rows,
            clock=self._clock,
            subqueries=inner,
            passing=self._passing,
            plan_path=relation.plan_path,
            hands_out=hands_out,
        )
        try:
            written = self._written(relation, tables, Writer(scope=scope, aliases=self._aliases))
        except PlanError as error:
            raise error.at(relation.plan_path) from error
        yield from _read_again(written, inner, rows, inside)
        return written

    def _written(  # noqa: C901 (a line per relation)
        self, relation: _Written, tables: list[Table], writer: Writer
    ) -> str:
        match relation:
            case ir.Read() | ir.LocalFiles():
                return self._columns_of(*self._leaves.read(relation))
            case ir.Values():
                return select_values(relation, writer)
            case ir.Filter():
                return select_filter(relation, tables[0], writer)
            case ir.Project():
                return select_project(relation, tables[0], writer)
            case ir.Fetch():
                return select_fetch(relation, tables[0], writer)
            case ir.Sort():
                return select_sort(relation, tables[0], writer)
            case ir.TopN():
                return select_topn(relation, tables[0], writer)
            case ir.Aggregate():
                return select_aggregate(relation, tables[0], writer)
            case ir.Join():
                return select_join(relation, tables[0], tables[1], writer)
            case ir.LateralJoin():
                return select_lateral_join(relation, tables[0], tables[1], writer)
            case ir.Cross():
                return select_cross(relation, tables[0], tables[1])
            case ir.Set():
                return select_set(relation, [table.select for table in tables], writer)
            case ir.Window():
                return select_window(relation, tables[0], writer)
            case ir.Expand():
                return select_expand(relation, tables[0], writer)
            case ir.PartialAggregate():
                return select_partial_aggregate(relation, tables[0], writer)
            case ir.FinalAggregate():
                return select_final_aggregate(relation, tables[0])
            case ir.SlidingAggregate():
                return select_sliding_aggregate(relation, tables[0], writer)
            case ir.FinalSlidingAggregate():
                return select_final_sliding_aggregate(relation, tables[0], writer)
            case _:
                assert_never(relation)

    def _columns_of(self, name: str, columns: Sequence[str]) -> str:
        """The SELECT of columns of an input. A table of these rows needs no SELECT: it is the input itself."""
        select = f"SELECT {select_list(f'{name}.{column}' for column in columns)} FROM {name}"
        if columns:
            self._direct[select] = Direct(name, tuple(columns))
        return select

    def _recursion(self, relation: ir.Recursion, visit: _Visit) -> Generator[_Visit, str, str]:
        """The SELECT of a recursion. If rows enter, each step is rendered twice: a step reads the entering rows first,
        then the rows that came back.
        """
        self.loops[relation.loop] = relation
        names = RecursionNames(number=next(self._aliases))
        around, inside = visit.outer, visit.inside
        entering = None if relation.input is None else (yield _Visit(relation.input, around, inside))
        fixed_tables: list[str] = []
        same: dict[ir.Relation, str] = {}
        for part in (part for step in relation.steps for part in fixed(step)):
            if part not in same:
                select = yield _Visit(part, around, inside)
                same[part] = names.fixed(len(same))
                fixed_tables.append(materialized(same[part], len(part.schema), select))
        start: list[str] = []
        for part in relation.base:
            start.append((yield _Visit(part, around, inside)))  # noqa: PERF401 (a comprehension cannot yield)
        rounds: list[str] = []
        for which, into in ((names.entering, start), (names.loop, rounds)):
            if which == names.loop or entering is not None:
                came_back = {**inside.came_back, relation.loop: which}
                for part in relation.steps:
                    into.append((yield _Visit(part, around, _Inside(came_back, {**inside.fixed, **same}))))
        return select_recursion(
            relation,
            names,
            entering=entering,
            fixed=fixed_tables,
            start=start,
            rounds=rounds,
            is_all=self._result is not None and relation.loop == self._result.loop,
        )

    def _shared_use(self, relation: ir.Shared) -> Generator[_Visit, str, str]:
        """The SELECT of a shared subtree. The first use renders the definition, which stands behind the definitions
        that it uses itself.
        """
        if relation.ordinal not in self._common:
            self._common[relation.ordinal] = yield _Visit(self._shared[relation.ordinal], (), is_joined=True)
        return self._columns_of(f"s{relation.ordinal}", [f"c{at}" for at in range(len(relation.schema))])


def _collects(relation: ir.Relation) -> bool:
    """Tests whether an aggregate puts all values of a group into a text, a list or a map."""
    measures = relation.measures if isinstance(relation, ir.Aggregate | ir.PartialAggregate) else ()
    return any(
        isinstance(measure.type, t.List | t.Map) or measure.function.name == "string_agg" for measure in measures
    )


def _joins(relation: ir.Relation) -> bool:
    """True if DuckDB joins or groups the relation's rows, also those that its subqueries ask for."""
    return relation.traits.loose in ("always", "grouped") or bool(subqueries_of(relation))


def _passes_on(relation: ir.Relation) -> bool:
    """Tests whether DuckDB hands each row on that it makes of a row that comes in, before it looks at others."""
    return isinstance(relation, ir.Filter | ir.Project | ir.Expand | ir.Fetch) or (
        isinstance(relation, ir.Set) and relation.operation is ir.SetOperation.UNION_ALL
    )


def _read_again(
    written: str, inner: Mapping[ir.Relation, str], outer: tuple[tuple[str, ...], ...], inside: _Inside
) -> Generator[_Visit, str, None]:
    """Visit the subqueries again that the text has several times, as where a guard has them, too: the statement reads
    their streams as often.
    """
    for relation, text in inner.items():
        if written.count(text) > 1:
            yield _Visit(relation, outer, inside, True)


def _has_partitions(relation: ir.Relation) -> bool:
    return isinstance(relation, ir.Window) and any(call.partitions for call in relation.calls)


def _names(relation: ir.Relation) -> str:
    return ", ".join(f"c{at}" for at in range(max(len(relation.schema), 1)))
