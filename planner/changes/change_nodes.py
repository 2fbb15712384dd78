"""Operators on changes, as values in a graph: the form of a plan whose inputs are changes.

Several nodes may read one node. A node has the columns of `schema`, by position; weights and rounds go with every row.
`plan_path` is the node's origin in the plan. SQL reads its inputs as in0, in1, ... with columns c0, c1, ...
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import pyarrow as pa

from ...operators.arrays.ordering import Order
from ...operators.changes.distinct_or_set_op import Weighing
from ...operators.changes.event_time.final_sliding_windows import SliceStates
from ...operators.changes.event_time.interval_closing import IntervalClosing
from ...operators.changes.event_time.window_closing import (
    AnyClosing,
    CountClosing,
    SessionClosing,
    SlicedClosing,
    Ticks,
)
from ...operators.changes.group import GroupMeasure
from ...operators.changes.join import JoinKey
from ...operators.changes.network.network_graph import Limits
from ...operators.changes.top import Counting
from ...operators.changes.values.sliced_rows import SlicedRows, SliceStarts
from ...operators.changes.window import WindowReach
from ..analysis.rising import Rising
from ..ir.walk import each_once

MARK: Final = "\0watermark"
"""The column of a source with the watermark at each row. No column of a plan has this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorSql:
    """The floor of a column of an operator's rows, or of the key's columns: `sql` gives the least value that later rows
    can have there. It reads the tick of the watermark as the only column, c0.
    """

    column: int
    sql: str
    type: pa.DataType
    ticks: Ticks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceNode:
    """Changes of a source, with the named columns."""

    source: str
    columns: tuple[str, ...]
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstantNode:
    """The rows of a statement that reads nothing. The rows are there from the first epoch on."""

    sql: str
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectNode:
    """Columns of each input, one input's rows after the other's; None is a column of nulls."""

    inputs: tuple[ChangeNode, ...]
    columns: tuple[int | None, ...]
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputeNode:
    """A computation on each row alone. `sql` reads the row's number behind its columns, and gives it as the last one.
    `rising`: the columns that rise with a column of the input. `in_arrays` gives the rows without SQL if it can."""

    input: ChangeNode
    sql: str
    schema: pa.Schema
    plan_path: str
    rising: Mapping[int, Rising] = field(default_factory=dict)
    in_arrays: SlicedRows | SliceStarts | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DifferenceNode:
    """The left side's rows without the right side's rows, which are among them."""

    left: ChangeNode
    right: ChangeNode
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCondition:
    """A condition on pairs. `sql` reads these columns of pairs, left ones first, and each pair's number; it gives the
    numbers of the pairs that match.
    """

    sql: str
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinNode:
    """Pairs with equal keys that meet the condition. `output` are the wanted columns, right columns counted after left
    columns. With `closing`, the first column of each side is the row's tick: pairs are near each other, and rows are
    let go when no match can come. Without it, rows below the `floors` of both sides' columns are let go.
    """

    left: ChangeNode
    right: ChangeNode
    keys: tuple[JoinKey, ...]
    output: tuple[int, ...]
    condition: PairCondition | None
    schema: pa.Schema
    plan_path: str
    closing: IntervalClosing | None = None
    floors: tuple[FloorSql, FloorSql] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnlyOneNode:
    """A check that a join has at most one pair for each left row; a second pair is an error. The first input has the
    pairs. The second input has all left rows, which are the first columns of a pair.
    """

    pairs: ChangeNode
    left: ChangeNode
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DistinctOrSetOpNode:
    """Rows of all inputs, with the copies that `weighing` gives. With `closing`, the first column is a slice of final
    windows. Rows below the `floor` of a column are let go.
    """

    inputs: tuple[ChangeNode, ...]
    weighing: Weighing
    schema: pa.Schema
    plan_path: str
    closing: SlicedClosing | None = None
    slice_sql: str | None = None
    floor: FloorSql | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupNode:
    """Running aggregates: the columns `key`, then a value for each measure. A key without rows has no answer; without a
    key, an answer of no rows is given if it is `always` wanted. With `closing`, the first key is a slice of final
    windows. Groups below the `floor` of a key's column are let go.
    """

    input: ChangeNode
    key: tuple[int, ...]
    measures: tuple[GroupMeasure, ...]
    schema: pa.Schema
    plan_path: str
    always: bool
    closing: SlicedClosing | None = None
    slice_sql: str | None = None
    floor: FloorSql | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopNode:
    """The first rows in an order, of all rows or of each key: the columns `key`, then all columns. `counting` defines
    the first `count` rows. Keys below the `floor` of one of their columns are let go.
    """

    input: ChangeNode
    key: tuple[int, ...]
    orders: tuple[Order, ...]
    offset: int
    count: int
    counting: Counting
    schema: pa.Schema
    plan_path: str
    floor: FloorSql | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegroupNode:
    """The touched groups computed again: the columns `key`, then the columns that `sql` gives for all rows of the
    touched keys. `sql` reads the number of a row's key behind the row's columns, and gives the number as its last
    column. `nothing` is the SQL for no rows at all, if there is a row for that.
    """

    input: ChangeNode
    key: tuple[int, ...]
    sql: str
    nothing: str | None
    schema: pa.Schema
    plan_path: str
    floor: FloorSql | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowNode:
    """Windows over the rows of a partition in these orders, ties broken by all columns. The columns out are all input
    columns, of which the first `keys` are the partition's, and then the windows' answers.

    `sql` reads, behind a row's columns, the `NUMBERS` of `operators.changes.window` and the carried answers; it gives
    the answers, then the row's position.
    """

    input: ChangeNode
    keys: int
    orders: tuple[Order, ...]
    reach: WindowReach
    sql: str
    schema: pa.Schema
    plan_path: str
    floor: FloorSql | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnTimeNode:
    """The rows that are on time for final windows, or only the `late` ones. The input's first column is the mark of
    `closing`; its last one is the watermark at the row, if rows are `marked`. `output` are the columns out. The
    watermark of `beside`, which is read for nothing else, counts too.
    """

    input: ChangeNode
    closing: AnyClosing | IntervalClosing
    output: range
    marked: bool
    late: bool
    schema: pa.Schema
    plan_path: str
    beside: ChangeNode | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalWindowsNode:
    """Windows of time, each once. The input's first column is the slice, the next `keys` columns are the keys. `sql`
    reads the numbers of the first and the last wanted window behind a row's columns; if it is None, these are the row.
    Windows that overlap are put together from `states` of slices, if they can be: then `sql` reads their number, the
    keys and the joined states. `slice_sql` gives the number of a tick's slice, for windows of a calendar.
    """

    input: ChangeNode
    keys: int
    closing: SlicedClosing
    slice_sql: str | None
    states: SliceStates | None
    sql: str | None
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalSessionsNode:
    """Sessions, each once. The input's first column is the tick, the next `keys` columns are the keys. `sql` reads the
    rows of whole sessions.
    """

    input: ChangeNode
    keys: int
    closing: SessionClosing
    sql: str
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalCountsNode:
    """Windows of a number of rows, each once. The input's first column is the tick, the next `keys` columns are the
    keys. `sql` reads a row's number within its key, and the number of the key's wanted windows, behind a row's columns.
    """

    input: ChangeNode
    keys: int
    closing: CountClosing
    sql: str
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalMatchesNode:
    """The rows of one side of a join, the `left` one or the right one, each once when no match can come: those that are
    `matched`, or those that are not. The rows' first column is the tick; `pairs` has the rows' columns for each match.
    Columns out: those behind the tick.
    """

    rows: ChangeNode
    pairs: ChangeNode
    closing: IntervalClosing
    left: bool
    matched: bool
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FinalAsOfNode:
    """An as-of join, each left row once. The first column of each side is the tick; `keys` are pairs of columns. `sql`
    joins left rows, in0, with right rows, in1 and in2. Right rows more than `tolerance` ticks earlier do not match.
    """

    left: ChangeNode
    right: ChangeNode
    keys: tuple[JoinKey, ...]
    tolerance: int | None
    closing: IntervalClosing
    sql: str
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecomputeNode:
    """The result of `sql` over all rows of all inputs, computed whenever an input has changed. `why` gives the reason
    why it cannot be worked out from the changes. `replayed` are the positions of inputs that the statement reads more
    than once.
    """

    inputs: tuple[ChangeNode, ...]
    sql: str
    replayed: frozenset[int] = frozenset()
    why: str
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BackNode:
    """The rows that came back in the loop of this number. A node that reads them, however far above, is inside that
    loop.
    """

    loop: int
    schema: pa.Schema
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopNode:
    """A loop to its fixed point: `entering`, and `body` over the rows that came back, until those no longer change.
    With `whole`, the body is one statement over the rows that came back and sources, which ends by its rounds.
    """

    loop: int
    name: str
    body: ChangeNode
    entering: ChangeNode | None
    limits: Limits
    schema: pa.Schema
    plan_path: str
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OutputsNode:
    """The root of a plan with side tables: the rows of the result, which are the first input, and of each table."""

    inputs: tuple[ChangeNode, ...]
    schema: pa.Schema
    plan_path: str


Operated: TypeAlias = (
    SourceNode
    | ConstantNode
    | SelectNode
    | ComputeNode
    | DifferenceNode
    | JoinNode
    | OnlyOneNode
    | DistinctOrSetOpNode
    | GroupNode
    | TopNode
    | RegroupNode
    | WindowNode
    | OnTimeNode
    | FinalWindowsNode
    | FinalSessionsNode
    | FinalCountsNode
    | FinalMatchesNode
    | FinalAsOfNode
    | RecomputeNode
)
"""Nodes with an operator of their own."""

ChangeNode: TypeAlias = Operated | BackNode | LoopNode | OutputsNode


def inputs_of(node: ChangeNode) -> tuple[ChangeNode, ...]:
    """The nodes that a node reads, in order."""
    match node:
        case SourceNode() | ConstantNode() | BackNode():
            return ()
        case SelectNode() | DistinctOrSetOpNode() | RecomputeNode() | OutputsNode():
            return node.inputs
        case ComputeNode() | GroupNode() | TopNode() | RegroupNode() | WindowNode():
            return (node.input,)
        case FinalWindowsNode() | FinalSessionsNode() | FinalCountsNode():
            return (node.input,)
        case OnTimeNode():
            return (node.input,) if node.beside is None else (node.input, node.beside)
        case FinalMatchesNode():
            return (node.rows, node.pairs)
        case DifferenceNode() | JoinNode() | FinalAsOfNode():
            return (node.left, node.right)
        case OnlyOneNode():
            return (node.pairs, node.left)
        case LoopNode():
            return (node.body,) if node.entering is None else (node.body, node.entering)


def with_inputs(node: ChangeNode, inputs: Sequence[ChangeNode]) -> ChangeNode:
    """The node over other inputs, in the order of `inputs_of`."""
    if all(new is old for new, old in zip(inputs, inputs_of(node), strict=True)):
        return node
    match node:
        case SourceNode() | ConstantNode() | BackNode():
            return node
        case SelectNode() | DistinctOrSetOpNode() | RecomputeNode() | OutputsNode():
            return replace(node, inputs=tuple(inputs))
        case ComputeNode() | GroupNode() | TopNode() | RegroupNode() | WindowNode():
            return replace(node, input=inputs[0])
        case FinalWindowsNode() | FinalSessionsNode() | FinalCountsNode():
            return replace(node, input=inputs[0])
        case OnTimeNode():
            return replace(node, input=inputs[0], beside=None if node.beside is None else inputs[1])
        case FinalMatchesNode():
            return replace(node, rows=inputs[0], pairs=inputs[1])
        case DifferenceNode() | JoinNode() | FinalAsOfNode():
            return replace(node, left=inputs[0], right=inputs[1])
        case OnlyOneNode():
            return replace(node, pairs=inputs[0], left=inputs[1])
        case LoopNode():
            return replace(node, body=inputs[0], entering=None if node.entering is None else inputs[1])


def nodes_of(root: ChangeNode) -> Iterator[ChangeNode]:
    """Every operator once, before its inputs."""
    return each_once(root, inputs_of)
