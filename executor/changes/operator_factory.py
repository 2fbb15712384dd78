"""Makes operators on changes from a plan's nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import assert_never

import numpy as np
import pyarrow as pa

from ...operators.changes.change_operator import ChangeOperator
from ...operators.changes.compute import Compute
from ...operators.changes.constant import Constant
from ...operators.changes.difference import Difference
from ...operators.changes.distinct_or_set_op import DistinctOrSetOp
from ...operators.changes.event_time.final_as_of import FinalAsOf
from ...operators.changes.event_time.final_counts import FinalCounts
from ...operators.changes.event_time.final_matches import FinalMatches
from ...operators.changes.event_time.final_sessions import FinalSessions
from ...operators.changes.event_time.final_sliding_windows import FinalSlidingWindows
from ...operators.changes.event_time.final_windows import FinalWindows, with_bounds
from ...operators.changes.event_time.floor import Floor, Value, floor_of_slices, floors_of_sides
from ...operators.changes.event_time.interval_closing import Near
from ...operators.changes.event_time.on_time import OnTime
from ...operators.changes.event_time.window_closing import MOST, CalendarClosing, DatedClosing, SliceClosing
from ...operators.changes.group import Group, GroupSlices
from ...operators.changes.join import Join
from ...operators.changes.only_one import OnlyOne
from ...operators.changes.recompute import Recompute
from ...operators.changes.regroup import Regroup
from ...operators.changes.select import Select
from ...operators.changes.top import Top
from ...operators.changes.values.evaluator import NUMBER, Evaluator, Evaluators, RowsFailed
from ...operators.changes.values.rows import Rows
from ...operators.changes.values.value_columns import FixedColumn, Mask
from ...operators.changes.window import Window, WindowByRound, read_by_windows
from ...planner.changes.change_nodes import (
    ComputeNode,
    ConstantNode,
    DifferenceNode,
    DistinctOrSetOpNode,
    FinalAsOfNode,
    FinalCountsNode,
    FinalMatchesNode,
    FinalSessionsNode,
    FinalWindowsNode,
    FloorSql,
    GroupNode,
    JoinNode,
    OnlyOneNode,
    OnTimeNode,
    Operated,
    PairCondition,
    RecomputeNode,
    RegroupNode,
    SelectNode,
    SourceNode,
    TopNode,
    WindowNode,
)


class ChangeOperatorFactory:
    """Makes the operators of one network. `sources` are the columns of each source's entry."""

    def __init__(self, evaluators: Evaluators, sources: Mapping[str, pa.Schema]) -> None:
        self._evaluators = evaluators
        self._sources = sources
        self._slices: dict[tuple[str, str], Callable[[int], int]] = {}
        """The numbers of ticks' slices, by the statement and the plan path."""

    def has_all(self, node: SourceNode) -> bool:
        """True if the node is its source's entry unchanged: the same columns, in the same order."""
        names: list[str] = self._sources[node.source].names
        return names == list(node.columns)

    def operator(  # noqa: C901 (a line per node)
        self, node: Operated, channel: int, depth: int, late: int | None = None, *, once: bool = False
    ) -> ChangeOperator:
        """The operator of a node on a channel, where rows have `depth` rounds.

        Its input `late` has rows only once the other inputs have ended for good. `once` is true if there is only one
        epoch.
        """
        match node:
            case SourceNode():
                positions = {name: at for at, name in enumerate(self._sources[node.source].names)}
                return Select(node.schema, [positions[column] for column in node.columns])
            case ConstantNode():
                return Constant(node.schema, self._constant(node) if channel == 0 else (), depth=depth)
            case SelectNode():
                return Select(node.schema, node.columns)
            case ComputeNode():
                return Compute(node.input.schema, node.schema, self._computing(node), node.in_arrays)
            case DifferenceNode():
                return Difference(node.schema)
            case JoinNode():
                return self._join(node, depth, late)
            case OnlyOneNode():
                return OnlyOne(node.schema, node.left.schema, plan_path=node.plan_path, depth=depth)
            case DistinctOrSetOpNode():
                return DistinctOrSetOp(
                    node.schema,
                    node.weighing,
                    inputs=len(node.inputs),
                    depth=depth,
                    once=once,
                    closing=self._closing(node),
                    floor=self._floor(node),
                )
            case GroupNode():
                return self._group(node, channel, depth)
            case TopNode():
                return Top(
                    node.input.schema,
                    node.key,
                    node.orders,
                    offset=node.offset,
                    count=node.count,
                    counting=node.counting,
                    depth=depth,
                    floor=self._floor(node),
                )
            case RegroupNode():
                return self._regroup(node, channel, depth)
            case WindowNode():
                return self._window(node, depth)
            case OnTimeNode():
                return OnTime(node.schema, node.closing, node.output, marked=node.marked, late=node.late)
            case FinalWindowsNode():
                return self._windows_of_time(node)
            case FinalSessionsNode():
                return self._sessions(node)
            case FinalCountsNode():
                return self._counts(node)
            case FinalAsOfNode():
                return self._as_of(node)
            case FinalMatchesNode():
                return FinalMatches(
                    node.rows.schema,
                    node.schema,
                    node.closing,
                    left=node.left,
                    matched=node.matched,
                    plan_path=node.plan_path,
                )
            case RecomputeNode():
                return self._recompute(node, channel, depth)
            case _:
                assert_never(node)

    def _group(self, node: GroupNode, channel: int, depth: int) -> Group:
        closing = self._closing(node)
        if closing is not None:
            return GroupSlices(
                node.input.schema, node.key, node.measures, node.schema, closing, plan_path=node.plan_path
            )
        return Group(
            node.input.schema,
            node.key,
            node.measures,
            node.schema,
            plan_path=node.plan_path,
            depth=depth,
            always=node.always and channel == 0,
            floor=self._floor(node),
        )

    def _join(self, node: JoinNode, depth: int, late: int | None) -> Join:
        condition: Pairs | Near | None = None
        if node.condition is not None:
            condition = self._condition(node, node.condition)
        if node.closing is not None and (node.closing.before or node.closing.after):
            condition = Near(node.closing, len(node.left.schema))
        return Join(
            node.left.schema,
            node.right.schema,
            node.keys,
            node.output,
            condition=condition,
            kept=(late != 0, late != 1),
            depth=depth,
            closing=node.closing,
            floors=self._floors(node),
        )

    def _as_of(self, node: FinalAsOfNode) -> FinalAsOf:
        left, right = node.left.schema, node.right.schema
        return FinalAsOf(
            left,
            right,
            node.keys,
            node.schema,
            node.closing,
            node.tolerance,
            self._evaluator(node.sql, [left, right, right], node.schema, node.plan_path),
            plan_path=node.plan_path,
        )

    def _recompute(self, node: RecomputeNode, channel: int, depth: int) -> Recompute:
        schemas = [child.schema for child in node.inputs]
        evaluate = self._evaluators.of(node.sql, schemas, node.schema, node.plan_path, replayed=node.replayed)
        return Recompute(schemas, node.schema, evaluate, plan_path=node.plan_path, depth=depth, always=channel == 0)

    def _regroup(self, node: RegroupNode, channel: int, depth: int) -> Regroup:
        behind = pa.schema(list(node.schema)[len(node.key) :]).append(NUMBER)
        read = [node.input.schema.append(NUMBER)]
        nothing = None if node.nothing is None else self._evaluator(node.nothing, read, behind, node.plan_path)
        return Regroup(
            node.input.schema,
            node.key,
            node.schema,
            self._evaluator(node.sql, read, behind, node.plan_path),
            plan_path=node.plan_path,
            evaluate_nothing=nothing,
            depth=depth,
            always=nothing is not None and channel == 0,
            floor=self._floor(node),
        )

    def _window(self, node: WindowNode, depth: int) -> Window | WindowByRound:
        answers = pa.schema(list(node.schema)[len(node.input.schema) :])
        read = read_by_windows(node.input.schema, answers, node.reach)
        evaluate = self._evaluator(node.sql, [read], answers.append(NUMBER), node.plan_path)
        arguments = (node.input.schema, node.keys, node.orders, node.schema, node.reach, evaluate)
        return (
            WindowByRound(*arguments, plan_path=node.plan_path, depth=depth)
            if depth
            else Window(*arguments, plan_path=node.plan_path, floor=self._floor(node))
        )

    def _windows_of_time(self, node: FinalWindowsNode) -> FinalWindows | FinalSlidingWindows:
        closing = self._closing(node)
        assert closing is not None
        states = node.states
        read = with_bounds(node.input.schema) if states is None else states.schema
        evaluate = None if node.sql is None else self._evaluator(node.sql, [read], node.schema, node.plan_path)
        if states is not None:
            return FinalSlidingWindows(
                node.input.schema,
                node.schema,
                closing,
                states,
                evaluate,
                keys=node.keys,
                make_states=None
                if states.sql is None
                else self._evaluator(states.sql, [node.input.schema], states.schema, node.plan_path),
                plan_path=node.plan_path,
            )
        in_order = not isinstance(node.input, GroupNode)
        return FinalWindows(
            node.input.schema, node.schema, closing, evaluate, in_order=in_order, plan_path=node.plan_path
        )

    def _closing(self, node: GroupNode | DistinctOrSetOpNode | FinalWindowsNode) -> SliceClosing | None:
        """The end of windows. DuckDB knows the calendars of time zones, and is asked for them."""
        if not isinstance(node.closing, CalendarClosing):
            return node.closing
        assert node.slice_sql is not None
        key = node.slice_sql, node.plan_path
        if key not in self._slices:
            self._slices[key] = self._slice_at(*key)
        return DatedClosing(node.closing, self._slices[key])

    def _slice_at(self, sql: str, plan_path: str) -> Callable[[int], int]:
        """The number of a tick's slice, by a statement. All operators ask for the watermark's, so the last answer is
        remembered.
        """
        schema = pa.schema([NUMBER])
        evaluate = self._evaluator(sql, [schema], schema, plan_path)
        return lru_cache(maxsize=1)(lambda tick: _number(evaluate(pa.record_batch([[tick]], schema))))

    def _floor(self, node: GroupNode | DistinctOrSetOpNode | RegroupNode | TopNode | WindowNode) -> Floor | None:
        if isinstance(node, GroupNode | DistinctOrSetOpNode):
            closing = self._closing(node)
            if closing is not None:
                return floor_of_slices(closing)
        return None if node.floor is None else self._floor_by_sql(node.floor, node.plan_path)

    def _floors(self, node: JoinNode) -> tuple[Floor, Floor] | None:
        if node.closing is not None:
            return floors_of_sides(node.closing)
        if node.floors is None:
            return None
        left, right = (self._floor_by_sql(floor, node.plan_path) for floor in node.floors)
        return left, right

    def _floor_by_sql(self, floor: FloorSql, plan_path: str) -> Floor:
        evaluate = self._evaluator(floor.sql, [pa.schema([NUMBER])], pa.schema([("floor", floor.type)]), plan_path)

        def value_at(tick: int) -> Value | None:
            """The floor. Where a moment is beyond what its type can hold, nothing is let go."""
            if not -MOST <= tick <= MOST:
                return None
            try:
                answer = evaluate(pa.record_batch([[tick]], pa.schema([NUMBER])))
            except RowsFailed:
                return None
            if answer.column(0).null_count:
                return None
            (value,) = Rows.of_batch(answer).columns
            assert isinstance(value, FixedColumn)
            number: Value = value.values[0].item()
            return number

        return Floor(floor.column, floor.ticks, value_at)

    def _sessions(self, node: FinalSessionsNode) -> FinalSessions:
        evaluate = self._evaluator(node.sql, [node.input.schema], node.schema, node.plan_path)
        return FinalSessions(
            node.input.schema, node.schema, node.closing, evaluate, keys=node.keys, plan_path=node.plan_path
        )

    def _counts(self, node: FinalCountsNode) -> FinalCounts:
        evaluate = self._evaluator(node.sql, [with_bounds(node.input.schema)], node.schema, node.plan_path)
        return FinalCounts(
            node.input.schema, node.schema, node.closing, evaluate, keys=node.keys, plan_path=node.plan_path
        )

    def _computing(self, node: ComputeNode) -> Evaluator:
        read = node.input.schema.append(NUMBER)
        return self._evaluator(node.sql, [read], node.schema.append(NUMBER), node.plan_path)

    def _constant(self, node: ConstantNode) -> Sequence[pa.RecordBatch]:
        return (self._evaluator(node.sql, [], node.schema, node.plan_path)(),)

    def _condition(self, node: JoinNode, condition: PairCondition) -> Pairs:
        both = [*node.left.schema, *node.right.schema]
        read = pa.schema([both[at] for at in condition.columns]).append(NUMBER)
        evaluate = self._evaluator(condition.sql, [read], pa.schema([NUMBER]), node.plan_path)
        return Pairs(evaluate, condition.columns, read)

    def _evaluator(self, sql: str, inputs: Sequence[pa.Schema], schema: pa.Schema, plan_path: str) -> Evaluator:
        return self._evaluators.of(sql, inputs, schema, plan_path)


def _number(answer: pa.RecordBatch) -> int:
    """The only value of an answer."""
    number: int = answer.column(0)[0].as_py()
    return number


class Pairs:
    """A join's condition, as a statement that gives the numbers of the matching pairs."""

    def __init__(self, evaluate: Evaluator, columns: Sequence[int], read: pa.Schema) -> None:
        self._evaluate = evaluate
        self._columns = tuple(columns)
        self._read = read

    def __call__(self, pairs: Rows) -> Mask:
        rows = pairs.select(self._columns).to_batch(self._read, pa.array(np.arange(len(pairs))))
        [numbers] = self._evaluate(rows).columns
        matches = np.zeros(len(pairs), dtype=np.bool_)
        matches[numbers.to_numpy(zero_copy_only=False)] = True
        return matches
