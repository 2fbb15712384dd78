"""The physical nodes of operators that rely on the order of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from ...operators.arrays.ordering import Order
from ...operators.arrays.reductions import Reduction
from ...operators.group_measures import Measure
from ...operators.merge_join import JoinKey
from ...operators.merging.kinds import Comparison, MergeJoinType
from ...operators.merging.pair_filter import PairCondition
from ...proto.errors import InternalError, PlanError
from .. import ir
from ..ir.arrow_types import arrow_schema
from ..ir.visit import is_column, parts
from ..physical.merge_nodes import AsOfMergeJoinNode, MergeJoinNode, StreamingAggregateNode
from ..physical.pipelines import PhysicalNode, ScanNode
from ..sql.sql_scope import TextScope
from ..sql.writer import Writer
from .reduced import reducing


def order_of(order: ir.ColumnOrder) -> Order:
    """The same order as an operator's `Order`."""
    direction = order.direction
    return Order(column=order.column, descending=direction.descending, nulls_first=direction.nulls_first)


def node_over_sorted(
    relation: ir.MergeJoin | ir.AsOfMergeJoin | ir.StreamingAggregate, inputs: Sequence[PhysicalNode]
) -> MergeJoinNode | AsOfMergeJoinNode | StreamingAggregateNode:
    match relation:
        case ir.MergeJoin():
            return _merge_join(relation, inputs[0], inputs[1])
        case ir.AsOfMergeJoin():
            return _as_of_merge_join(relation, inputs[0], inputs[1])
        case ir.StreamingAggregate():
            return _streaming_aggregate(relation, inputs[0])
        case _:
            assert_never(relation)


def _merge_join(relation: ir.MergeJoin, left: PhysicalNode, right: PhysicalNode) -> MergeJoinNode:
    return MergeJoinNode(
        left=left,
        right=right,
        keys=tuple(
            JoinKey(
                left=key.left,
                right=key.right,
                descending=key.direction.descending,
                nulls_first=key.direction.nulls_first,
                comparison=Comparison.NOT_DISTINCT if key.nulls_match else Comparison.EQUAL,
            )
            for key in relation.keys
        ),
        type=MergeJoinType(relation.type.value),
        condition=None if relation.condition is None else _condition(relation, relation.condition),
        schema=arrow_schema(relation.schema),
        size_class=max(left.size_class, right.size_class),
        plan_path=relation.plan_path,
    )


def _as_of_merge_join(relation: ir.AsOfMergeJoin, left: PhysicalNode, right: PhysicalNode) -> AsOfMergeJoinNode:
    width = len(relation.left.schema)
    mine, theirs = relation.ticks
    return AsOfMergeJoinNode(
        left=left,
        right=right,
        keys=tuple((one.index, other.index - width) for one, other in relation.keys),
        ticks=(mine.index, theirs.index - width),
        outer=relation.type is ir.JoinType.LEFT,
        tolerance=relation.tolerance,
        schema=arrow_schema(relation.schema),
        size_class=max(left.size_class, right.size_class),
        plan_path=relation.plan_path,
    )


def _streaming_aggregate(relation: ir.StreamingAggregate, input_: PhysicalNode) -> StreamingAggregateNode:
    writer = _writer(len(relation.input.schema))
    checked = isinstance(input_, ScanNode) and bool(input_.order)  # by the scan
    return StreamingAggregateNode(
        input=input_,
        keys=tuple(key.index for key in relation.keys),
        measures=tuple(_measure(measure, writer, relation.plan_path) for measure in relation.measures),
        order=() if checked else tuple(map(order_of, relation.order)),
        schema=arrow_schema(relation.schema),
        size_class=input_.size_class,
        plan_path=relation.plan_path,
    )


def _condition(relation: ir.MergeJoin, condition: ir.Expression) -> PairCondition:
    width = len(relation.left.schema) + len(relation.right.schema)
    reads = frozenset(part.index for part in parts(condition) if isinstance(part, ir.Field))
    try:
        return PairCondition(sql=_writer(width).expression(condition), reads=reads)
    except PlanError as error:
        raise error.at(relation.plan_path) from error


def _measure(measure: ir.Measure, writer: Writer, plan_path: str) -> Measure:
    try:
        return Measure(sql=writer.measure(measure), reduction=_reduction(measure))
    except PlanError as error:
        raise error.at(plan_path) from error


def _reduction(measure: ir.Measure) -> Reduction | None:
    """The measure without SQL, if it is a reduction of a column or of nothing."""
    match reducing(measure):
        case (function, None):
            return Reduction(function=function)
        case (function, ir.Field() as column) if is_column(column):
            return Reduction(function=function, column=column.index)
        case _:
            return None


def _writer(width: int) -> Writer:
    """A writer for expressions over rows whose columns are called c0, c1, ..."""
    return Writer(scope=TextScope(rows=(tuple(f"c{at}" for at in range(width)),), clock=_no_clock))


def _no_clock(variable: ir.Clock) -> str:
    raise InternalError(f"an operator that relies on order does not read {variable.value}")
