"""Plans as values: immutable, typed relations and expressions, each with its plan path.

The shapes differ from Substrait's own, so that later passes have fewer cases:

- `Project` *replaces* its input (a SELECT list). Substrait's append-then-emit, and the emit of every other
  relation, become one `Project` each; there is no emit here.
- `Join` covers the logical join and the physical hash, merge and nested-loop joins; `Cross` stays apart.
- Field references are flat positions into the input row, plus steps into nested values. In a join's condition the
  right side's columns follow the left side's. `outer=n` reads the row of the n-th enclosing subquery's operator.
- `schema` is the tuple of column types; names exist only in `Read` and `Plan`.

Nodes are compared and hashed by identity: plans can be thousands of levels deep, and a structural hash would recurse.
What a pass knows of a node is in a dictionary by the node itself, which keeps the node alive. What is known of a
relation for longer than a pass is in a `planner.ir.by_node.ByNode`, which notices by the relation's number that a
rewrite has lost it.
Walk plans with `planner.ir.walk`, never with plain recursion.
"""

from __future__ import annotations

from typing import TypeAlias

from .expressions import (
    Bound,
    BoundsKind,
    Call,
    Cast,
    CastFailure,
    Clock,
    Comparison,
    Construct,
    ContextVariable,
    Direction,
    Expression,
    Field,
    Function,
    FunctionKind,
    IfThen,
    Lambda,
    ListElement,
    Literal,
    MapKey,
    Measure,
    Nested,
    NestedField,
    OneOf,
    Parameter,
    SortKey,
    Subquery,
    SubqueryKind,
    Switch,
    WindowCall,
)
from .loop_relations import AtLimit, Iterate, LoopInput, Recursion, Reference, Rounds
from .plan import (
    MOST_SHARED,
    Plan,
    SideTable,
    Write,
)
from .planned import (
    KEPT_KIND,
    AsOfMergeJoin,
    Dealing,
    DenseSlices,
    Exchange,
    FinalAggregate,
    FinalDenseSlices,
    FinalSlidingAggregate,
    IndexLookup,
    IndexTable,
    IndexUse,
    MergeJoin,
    MergeKey,
    PackLists,
    PartialAggregate,
    Routing,
    SlidingWindows,
    StreamingAggregate,
    Unnest,
    User,
)
from .relations import (
    Aggregate,
    ColumnOrder,
    Cross,
    Expand,
    Fetch,
    FileItem,
    Filter,
    Join,
    JoinAlgorithm,
    JoinType,
    LateralJoin,
    LateRows,
    LocalFiles,
    Node,
    Project,
    Read,
    RowWatermark,
    Schema,
    Set,
    SetOperation,
    Shared,
    SlidingAggregate,
    Sort,
    TimeWindows,
    TopN,
    Values,
    Window,
)
from .time_joins import AsOfJoin, IntervalJoin

Operated: TypeAlias = (
    PackLists
    | Unnest
    | IndexLookup
    | MergeJoin
    | AsOfMergeJoin
    | StreamingAggregate
    | SlidingWindows
    | DenseSlices
    | FinalDenseSlices
    | Rounds
    | User
)
"""Relations that have an operator of their own. The relations above and below them are fragments."""

OfTime: TypeAlias = TimeWindows | LateRows | IntervalJoin | AsOfJoin
"""Relations over the times of rows. Only operators on changes run them; elsewhere rewrites lower them first."""

Relation: TypeAlias = (
    Read
    | LocalFiles
    | Values
    | Filter
    | Project
    | Fetch
    | Sort
    | TopN
    | Aggregate
    | SlidingAggregate
    | OfTime
    | Join
    | LateralJoin
    | Cross
    | Set
    | Window
    | Expand
    | Shared
    | Iterate
    | Reference
    | LoopInput
    | Recursion
    | PartialAggregate
    | FinalAggregate
    | FinalSlidingAggregate
    | Exchange
    | IndexTable
    | Operated
)
"""All relations. Each kind has `parts` and `traits` (`planner/ir/traits.py`)."""

# The kinds of which a trait is "own". A pass that lacks a case for one of them is a type error, and a kind that is not
# named here fails a test.

OwnOrder: TypeAlias = (
    Read | LocalFiles | Project | Sort | TopN | Recursion | Rounds | Unnest | MergeJoin | StreamingAggregate
)
OwnRows: TypeAlias = (
    Read
    | LocalFiles
    | Values
    | Filter
    | Expand
    | Fetch
    | TopN
    | Aggregate
    | SlidingAggregate
    | Join
    | Cross
    | Set
    | MergeJoin
    | StreamingAggregate
)
OwnDistribution: TypeAlias = (
    Read
    | LocalFiles
    | Values
    | Fetch
    | Sort
    | TopN
    | Aggregate
    | SlidingAggregate
    | Join
    | LateralJoin
    | Cross
    | Set
    | Window
    | MergeJoin
    | AsOfMergeJoin
    | StreamingAggregate
    | User
)
OwnChanges: TypeAlias = (
    Read
    | LocalFiles
    | Values
    | Filter
    | Project
    | Expand
    | Fetch
    | Sort
    | TopN
    | Aggregate
    | SlidingAggregate
    | OfTime
    | Join
    | Cross
    | Set
    | Window
    | Iterate
    | Reference
    | LoopInput
    | Unnest
    | PackLists
    | IndexTable
    | IndexLookup
    | MergeJoin
    | StreamingAggregate
    | User
)

__all__ = [
    "MOST_SHARED",
    "KEPT_KIND",
    "Aggregate",
    "AsOfJoin",
    "AsOfMergeJoin",
    "AtLimit",
    "Bound",
    "BoundsKind",
    "Call",
    "Cast",
    "CastFailure",
    "Clock",
    "ColumnOrder",
    "Comparison",
    "Construct",
    "ContextVariable",
    "Cross",
    "Dealing",
    "DenseSlices",
    "Direction",
    "Exchange",
    "Expand",
    "Expression",
    "Fetch",
    "Field",
    "FileItem",
    "Filter",
    "FinalAggregate",
    "FinalDenseSlices",
    "FinalSlidingAggregate",
    "Function",
    "FunctionKind",
    "IfThen",
    "IndexLookup",
    "IndexTable",
    "IndexUse",
    "IntervalJoin",
    "Iterate",
    "Join",
    "JoinAlgorithm",
    "JoinType",
    "Lambda",
    "LateRows",
    "LateralJoin",
    "ListElement",
    "Literal",
    "LocalFiles",
    "Node",
    "LoopInput",
    "MapKey",
    "Measure",
    "MergeJoin",
    "MergeKey",
    "Nested",
    "NestedField",
    "OfTime",
    "OneOf",
    "Operated",
    "OwnChanges",
    "OwnDistribution",
    "OwnOrder",
    "OwnRows",
    "Parameter",
    "PackLists",
    "PartialAggregate",
    "Plan",
    "Project",
    "Read",
    "Recursion",
    "Reference",
    "Relation",
    "Rounds",
    "Routing",
    "RowWatermark",
    "Schema",
    "Set",
    "SetOperation",
    "Shared",
    "SideTable",
    "SlidingAggregate",
    "SlidingWindows",
    "Sort",
    "SortKey",
    "StreamingAggregate",
    "Subquery",
    "SubqueryKind",
    "Switch",
    "TimeWindows",
    "TopN",
    "Unnest",
    "User",
    "Values",
    "Window",
    "WindowCall",
    "Write",
]
