"""The relations of a decoded plan. Planned trees have them too."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, ClassVar, Final, NewType, TypeAlias, TypeVar, cast

from ...operators.changes.event_time.interval_closing import IntervalClosing
from ...operators.changes.event_time.window_closing import AnyClosing
from ...operators.core.column import KeyCut
from . import traits as table
from .expressions import Direction, Expression, Measure, SortKey, Subquery, WindowCall
from .traits import Parts, Traits
from .types import Type

if TYPE_CHECKING:
    from . import Relation

Schema: TypeAlias = tuple[Type, ...]
PartsT = TypeVar("PartsT")
NodeNumber = NewType("NodeNumber", int)

_numbers: Final = cast("Iterator[NodeNumber]", count())


class _Found:
    """The parts that `tree` and `visit` have found in a relation: each pass asks for them again, and a relation never
    changes.
    """

    __slots__ = ("found_beneath", "found_expressions", "found_inputs", "found_subqueries")

    found_inputs: tuple[Relation, ...]
    found_expressions: tuple[Expression, ...]
    found_subqueries: tuple[Subquery, ...]
    found_beneath: tuple[Relation, ...]

    def keep(self, name: str, parts: PartsT) -> PartsT:
        """Keeps what was found under one of the names above, and returns it."""
        object.__setattr__(self, name, parts)
        return parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Node(_Found):
    """The base of every relation. `number` is given once, when the relation is made. No other relation gets it, and
    `dataclasses.replace` keeps it (`planner/ir/by_node.py` says why).
    """

    number: NodeNumber = field(default_factory=_numbers.__next__, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnOrder:
    """An order by one column; `direction` is never CLUSTERED."""

    column: int
    direction: Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWatermark:
    """The watermark of a source, from a column of its rows: lengths of time are in units of the column's type."""

    column: int
    delay: int
    ahead: int | None
    idle: int | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Read(Node):
    """A leaf read of one source. All reads of one name are one source.

    `names` and `schema` are those of the columns that this read uses, in order; `source` is the name as the plan writes
    it, parts joined by dots. With an `order`, the source's rows are declared to be sorted by it: reading rows in
    another order fails. With a `watermark`, a continuous task's source has this watermark.

    In a plan that is distributed over channels, a read has its channel's share of the rows, or all rows if `whole`, or
    those of the channel's range of a `cut`.
    """

    source: str
    names: tuple[str, ...]
    schema: Schema
    plan_path: str
    whole: bool = False
    cut: KeyCut | None = None
    order: tuple[ColumnOrder, ...] = ()
    watermark: RowWatermark | None = None
    parts: ClassVar = Parts()
    traits: ClassVar = table.READ


@dataclass(frozen=True, slots=True, kw_only=True)
class FileItem:
    """A file, folder or glob that the plan itself names in `local_files`."""

    path: str
    format: str
    start: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LocalFiles(Node):
    """A static source: files that the plan names. The source has its place as its name. `whole`, `cut`, `order` and
    `watermark` are as in `Read`.
    """

    source: str
    names: tuple[str, ...]
    items: tuple[FileItem, ...]
    schema: Schema
    plan_path: str
    whole: bool = False
    cut: KeyCut | None = None
    order: tuple[ColumnOrder, ...] = ()
    watermark: RowWatermark | None = None
    parts: ClassVar = Parts()
    traits: ClassVar = table.READ


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Values(Node):
    """A virtual table."""

    rows: tuple[tuple[Expression, ...], ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(expressions=("rows",))
    traits: ClassVar = table.VALUES


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filter(Node):
    input: Relation
    condition: Expression
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("condition",))
    traits: ClassVar = table.FILTER


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Project(Node):
    """A SELECT list. The output columns are `expressions` and nothing else."""

    input: Relation
    expressions: tuple[Expression, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("expressions",))
    traits: ClassVar = table.PROJECT


MOST_ROWS: Final = (1 << 63) - 1
"""The largest number of a row. Producers write it for no limit, and no input has as many rows."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fetch(Node):
    """A range of the input's rows. `count=None` is no limit. Literals are at most `MOST_ROWS`."""

    input: Relation
    offset: Expression | None
    count: Expression | None
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("offset", "count"))
    traits: ClassVar = table.FETCH


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sort(Node):
    input: Relation
    keys: tuple[SortKey, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("keys",))
    traits: ClassVar = table.SORT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopN(Node):
    """Sort and fetch in one. With `ties`, rows equal to the last row by the keys are included."""

    input: Relation
    keys: tuple[SortKey, ...]
    offset: Expression | None
    count: Expression | None
    ties: bool
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("keys", "offset", "count"))
    traits: ClassVar = table.TOP_N


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Aggregate(Node):
    """Groups with measures. Columns out: `keys`, then `measures`, then, with several grouping sets, the set's number
    (i32).

    `grouping_sets` holds positions into `keys`; one empty set is a global aggregate.
    """

    input: Relation
    keys: tuple[Expression, ...]
    grouping_sets: tuple[tuple[int, ...], ...]
    measures: tuple[Measure, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("keys", "measures"))
    traits: ClassVar = table.AGGREGATE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlidingAggregate(Node):
    """Groups of windows of time that overlap, or leave gaps. `slice` numbers the slices of time that all windows are
    made of, and is never null: window n is `length` slices long, and begins with slice n * `step`.

    Columns out: the window's number (i64), `keys`, then `measures`. A window has a row for each group of keys of which
    it has at least one row.
    """

    input: Relation
    slice: Expression
    length: int
    step: int
    keys: tuple[Expression, ...]
    measures: tuple[Measure, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("slice", "keys", "measures"))
    traits: ClassVar = table.SLIDING


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimeWindows(Node):
    """Groups of windows of time. `mark` is the number of a row's slice; for sessions, and for windows of a number of
    rows, it is the row's tick. It is never null. `closing` says which windows there are, and when they end. With
    `final`, a continuous task gives each window once, when it has ended, or `at_once`, with its first row.

    `ends` is the tick at which the earliest window of a row ends, if the windows are of a calendar.

    Columns out: the window's number, or the ticks of the first and the last row if marks are ticks (i64); `keys`;
    `measures`.
    """

    input: Relation
    mark: Expression
    ends: Expression | None
    keys: tuple[Expression, ...]
    measures: tuple[Measure, ...]
    closing: AnyClosing
    final: bool
    at_once: bool
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("mark", "ends", "keys", "measures"))
    traits: ClassVar = table.TIME_WINDOWS


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LateRows(Node):
    """The input's rows that are late for final windows of time, or with `on_time` the other ones; `mark`, `ends` and
    `closing` are those of the windows.
    """

    input: Relation
    mark: Expression
    ends: Expression | None
    closing: AnyClosing | IntervalClosing
    on_time: bool
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("mark", "ends"))
    traits: ClassVar = table.LATE_ROWS


class JoinType(enum.Enum):
    INNER = "inner"
    OUTER = "outer"
    LEFT = "left"
    RIGHT = "right"
    LEFT_SEMI = "left_semi"
    RIGHT_SEMI = "right_semi"
    LEFT_ANTI = "left_anti"
    RIGHT_ANTI = "right_anti"
    LEFT_SINGLE = "left_single"
    RIGHT_SINGLE = "right_single"
    LEFT_MARK = "left_mark"
    RIGHT_MARK = "right_mark"

    @property
    def marks(self) -> bool:
        """Tests whether rows get a column that says if they have a match."""
        return self in (JoinType.LEFT_MARK, JoinType.RIGHT_MARK)


class JoinAlgorithm(enum.Enum):
    ANY = "any"
    HASH = "hash"
    MERGE = "merge"
    NESTED_LOOP = "nested_loop"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Join(Node):
    """A join of any type. `condition` sees left columns, then right columns, whatever the type. A post-join filter is a
    `Filter` above the join.
    """

    left: Relation
    right: Relation
    type: JoinType
    condition: Expression | None
    schema: Schema
    plan_path: str
    algorithm: JoinAlgorithm = JoinAlgorithm.ANY
    parts: ClassVar = Parts(inputs=("left", "right"), expressions=("condition",))
    traits: ClassVar = table.JOIN


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LateralJoin(Node):
    """A join whose right side is evaluated for each left row. The right side reads the left row as `outer` fields."""

    left: Relation
    right: Relation
    type: JoinType
    condition: Expression | None
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("left", "right"), expressions=("condition",))
    traits: ClassVar = table.LATERAL


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cross(Node):
    left: Relation
    right: Relation
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("left", "right"))
    traits: ClassVar = table.CROSS


class SetOperation(enum.Enum):
    MINUS_PRIMARY = "minus_primary"
    MINUS_PRIMARY_ALL = "minus_primary_all"
    MINUS_MULTISET = "minus_multiset"
    INTERSECTION_PRIMARY = "intersection_primary"
    INTERSECTION_MULTISET = "intersection_multiset"
    INTERSECTION_MULTISET_ALL = "intersection_multiset_all"
    UNION_DISTINCT = "union_distinct"
    UNION_ALL = "union_all"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Set(Node):
    inputs: tuple[Relation, ...]
    operation: SetOperation
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("inputs",))

    @property
    def traits(self) -> Traits:
        match self.operation:
            case SetOperation.UNION_ALL:
                return table.UNION_ALL
            case SetOperation.UNION_DISTINCT:
                return table.UNION
            case _:
                return table.SET


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Window(Node):
    """Window calls over the input. Columns out: the input's, then one per call."""

    input: Relation
    calls: tuple[WindowCall, ...]
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts(inputs=("input",), expressions=("calls",))
    traits: ClassVar = table.WINDOW


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expand(Node):
    """One row per input row and alternative. Columns out: one per field, then the alternative's number. `why` is the
    reason if the plan has another relation in its place.
    """

    input: Relation
    alternatives: tuple[tuple[Expression, ...], ...]
    schema: Schema
    plan_path: str
    why: str = ""
    parts: ClassVar = Parts(inputs=("input",), expressions=("alternatives",))
    traits: ClassVar = table.EXPAND


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shared(Node):
    """A use of `Plan.shared[ordinal]`, a common subtree computed once."""

    ordinal: int
    schema: Schema
    plan_path: str
    parts: ClassVar = Parts()
    traits: ClassVar = table.SHARED
