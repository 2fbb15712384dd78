"""Operators on changes, as values in a graph: what a plan becomes where its inputs are changes.

A node may be read by several others. It has the columns of `schema`, by place; weights and rounds go with every row.
`place` is where in the plan it comes from. SQL reads its inputs as in0, in1, ... with columns c0, c1, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from ...operators.arrays.ordering import Order
from ...operators.changes.distinct_or_set_op import Weighing
from ...operators.changes.group import GroupMeasure
from ...operators.changes.join import JoinKey
from ...operators.changes.network.network_graph import Limits
from ...operators.changes.top import Counting
from ...operators.changes.window import Reach


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceNode:
    """Changes of a source: those of its columns that are named."""

    source: str
    columns: tuple[str, ...]
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ConstantNode:
    """The rows of a statement that reads nothing; they are there from the first epoch on."""

    sql: str
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SelectNode:
    """Columns of each input, one input's rows after the other's; None is a column of nulls."""

    inputs: tuple[ChangeNode, ...]
    columns: tuple[int | None, ...]
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputeNode:
    """What each row becomes by itself. `sql` reads, behind the row's columns, its number, and gives it as its last."""

    input: ChangeNode
    sql: str
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DifferenceNode:
    """The left side's rows but for the right side's, which are among them."""

    left: ChangeNode
    right: ChangeNode
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCondition:
    """`sql` reads these columns of pairs, left ones first, and each pair's number; it gives the numbers of those that
    match.
    """

    sql: str
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JoinNode:
    """Pairs with equal keys that meet the condition, of which the columns `output` are wanted, right ones counted after
    left ones.
    """

    left: ChangeNode
    right: ChangeNode
    keys: tuple[JoinKey, ...]
    output: tuple[int, ...]
    condition: PairCondition | None
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnlyOneNode:
    """The pairs of a join, first input, each left row of which has at most one: an error if not. The second input has
    all left rows; they are the first columns of a pair.
    """

    pairs: ChangeNode
    left: ChangeNode
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WeighNode:
    """Rows of all inputs, as often as `weighing` says."""

    inputs: tuple[ChangeNode, ...]
    weighing: Weighing
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupNode:
    """Running aggregates: the columns `key`, then a value for each measure. Without a key there is always a row."""

    input: ChangeNode
    key: tuple[int, ...]
    measures: tuple[GroupMeasure, ...]
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TopNode:
    """The first rows in an order, of all or of each key: the columns `key`, then all columns. `counting` says which are
    the first `count`.
    """

    input: ChangeNode
    key: tuple[int, ...]
    orders: tuple[Order, ...]
    offset: int
    count: int
    counting: Counting
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegroupNode:
    """The columns `key`, then what `sql` makes of all rows of the keys that are touched: it reads, behind a row's
    columns, the number of its key, and gives it as its last. `nothing` is SQL for no rows at all, where there is a row
    for that.
    """

    input: ChangeNode
    key: tuple[int, ...]
    sql: str
    nothing: str | None
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowNode:
    """All columns, of which the first `keys` are the partition's, and behind them what windows over its rows in these
    orders, ties broken by all columns, say of each row. `sql` reads, behind a row's columns, the `NUMBERS` of
    `operators.changes.window` and the answers that are carried; it gives the answers, then the row's position.
    """

    input: ChangeNode
    keys: int
    orders: tuple[Order, ...]
    reach: Reach
    sql: str
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecomputeNode:
    """What `sql` makes of all rows of all inputs, whenever one has changed. `why` says what keeps it from being
    worked out from the changes.
    """

    inputs: tuple[ChangeNode, ...]
    sql: str
    why: str
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BackNode:
    """What has come back in the loop of this number. What reads it, however far above, is inside that loop."""

    loop: int
    schema: pa.Schema
    place: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoopNode:
    """What comes to rest in a loop: `entering`, and `body` over what has come back, until that no longer changes. Where
    it is taken as a `whole`, the body is one statement over what comes back and sources, which ends by its rounds.
    """

    loop: int
    name: str
    body: ChangeNode
    entering: ChangeNode | None
    limits: Limits
    schema: pa.Schema
    place: str
    whole: bool = False


ChangeNode: TypeAlias = (
    SourceNode
    | ConstantNode
    | SelectNode
    | ComputeNode
    | DifferenceNode
    | JoinNode
    | OnlyOneNode
    | WeighNode
    | GroupNode
    | TopNode
    | RegroupNode
    | WindowNode
    | RecomputeNode
    | BackNode
    | LoopNode
)


def inputs_of(node: ChangeNode) -> tuple[ChangeNode, ...]:
    """What a node reads, in order."""
    match node:
        case SourceNode() | ConstantNode() | BackNode():
            return ()
        case SelectNode() | WeighNode() | RecomputeNode():
            return node.inputs
        case ComputeNode() | GroupNode() | TopNode() | RegroupNode() | WindowNode():
            return (node.input,)
        case DifferenceNode() | JoinNode():
            return (node.left, node.right)
        case OnlyOneNode():
            return (node.pairs, node.left)
        case LoopNode():
            return (node.body,) if node.entering is None else (node.body, node.entering)
