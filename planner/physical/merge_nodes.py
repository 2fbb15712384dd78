"""The physical nodes of operators that rely on the order of their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from ...operators.arrays.ordering import Order
from ...operators.group_measures import Measure
from ...operators.merge_join import JoinKey
from ...operators.merging.kinds import MergeJoinType
from ...operators.merging.pair_filter import PairCondition

if TYPE_CHECKING:
    from .pipelines import PhysicalNode


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeJoinNode:
    """Two inputs that are sorted by `keys`, joined as they stream by; `condition` is a further condition on pairs."""

    left: PhysicalNode
    right: PhysicalNode
    keys: tuple[JoinKey, ...]
    type: MergeJoinType
    condition: PairCondition | None
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AsOfMergeJoinNode:
    """Two inputs that are sorted by `keys` and then `ticks`. Each left row has the latest right row that is not later
    and at most `tolerance` ticks earlier; with `outer` it may have none.
    """

    left: PhysicalNode
    right: PhysicalNode
    keys: tuple[tuple[int, int], ...]
    ticks: tuple[int, int]
    outer: bool
    tolerance: int | None
    schema: pa.Schema
    size_class: int
    plan_path: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamingAggregateNode:
    """Groups of neighbouring rows of the input by its columns `keys`. `order` is the input's order, if it has one."""

    input: PhysicalNode
    keys: tuple[int, ...]
    measures: tuple[Measure, ...]
    order: tuple[Order, ...]
    schema: pa.Schema
    size_class: int
    plan_path: str
