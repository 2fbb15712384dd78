"""The union of all relations, so that mypy finds every `match` that lacks a case."""

from __future__ import annotations

from typing import TypeAlias

from .loop_relations import Iterate, LoopInput, Recursion, Reference, Rounds
from .planned import (
    Exchange,
    FinalAggregate,
    IndexLookup,
    IndexTable,
    MergeJoin,
    PartialAggregate,
    StreamingAggregate,
    Unnest,
    User,
)
from .relations import (
    Aggregate,
    Cross,
    Expand,
    Fetch,
    Filter,
    Join,
    LateralJoin,
    LocalFiles,
    Project,
    Read,
    Set,
    Shared,
    Sort,
    TopN,
    Values,
    Window,
)

Operated: TypeAlias = Unnest | IndexLookup | MergeJoin | StreamingAggregate | Rounds | User
"""Relations that have an operator of their own. The relations above and below them are fragments."""

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
    | Exchange
    | IndexTable
    | Operated
)
