"""Random relations over small tables full of nulls, NaN and duplicates, against plain Python.

Class of bug: a relation's SQL that means something else than the relation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.physical.pipelines import Feed, SourceShape
from tidegate.planner.prepare import prepare
from tidegate.proto.values import TaskOptions

from ...searching import tries
from ..build import (
    F64,
    I64,
    TEXT,
    aggregate,
    call,
    col,
    combine,
    eq,
    expand,
    fetch,
    filtered,
    join,
    lit,
    measure,
    plan,
    project,
    read,
    sort,
    table,
    topn,
)
from ..running import rows
from . import naive

FEW = settings(max_examples=tries(18))
LEFT = read("l", k=I64, v=F64, s=TEXT)
RIGHT = read("r", k=I64, w=F64)
KEYS = st.none() | st.integers(0, 3)
FLOATS = st.none() | st.sampled_from([0.0, -0.0, 1.5, -2.5, math.nan, math.inf])
LEFT_ROWS = st.lists(st.tuples(KEYS, FLOATS, st.none() | st.sampled_from(["", "a", "b"])), max_size=8)
RIGHT_ROWS = st.lists(st.tuples(KEYS, FLOATS), max_size=8)
FEEDS = st.sampled_from(Feed)


def run(
    root: ir.Relation, left: list[naive.Row], right: Sequence[naive.Row] = (), feed: Feed = Feed.FILES
) -> list[naive.Row]:
    return rows(plan(root), {"l": table(LEFT, left), "r": table(RIGHT, right)}, feed=feed)


def statement(root: ir.Relation) -> str:
    """The SQL of a plan that is one fragment, over streams."""
    prepared = prepare(plan(root), TaskOptions())
    feeds = {source: SourceShape(feed=Feed.STREAM, size_class=1) for source in "lrtu"}
    [pipeline] = prepared.physical(feeds).pipelines
    sql: str = pipeline.root.sql
    return sql


EQUAL = eq(col(0), col(3))
WIDER = call("and", call("gte", col(0), col(3)), call("lt", col(1, F64), col(4, F64)))


def equal_keys(left: naive.Row, right: naive.Row) -> bool | None:
    return naive.equal(left[0], right[0])


def every_pair(left: naive.Row, right: naive.Row) -> bool:
    return True


def wider(left: naive.Row, right: naive.Row) -> bool | None:
    first = None if None in (left[0], right[0]) else left[0] >= right[0]
    second = None if None in (left[1], right[1]) else naive.compare(left[1], right[1], ir.Direction.ASC_NULLS_LAST) < 0
    return False if False in (first, second) else None if None in (first, second) else True


@pytest.mark.parametrize("type_", ir.JoinType)
@pytest.mark.parametrize(
    ("condition", "matches"),
    [(EQUAL, equal_keys), (WIDER, wider), (lit(True), every_pair)],
    ids=["equal", "wider", "every pair"],
)
@FEW
@given(left=LEFT_ROWS, right=RIGHT_ROWS, feed=FEEDS)
def test_joins(
    type_: ir.JoinType,
    condition: ir.Expression,
    matches: naive.Matches,
    left: list[naive.Row],
    right: list[naive.Row],
    feed: Feed,
) -> None:
    relation = join(LEFT, RIGHT, type_, condition)
    try:
        expected = naive.same(naive.join(left, right, type_, matches, (3, 2)))
    except ValueError:
        with pytest.raises(duckdb.Error, match="More than one row"):
            run(relation, left, right, feed)
    else:
        assert naive.same(run(relation, left, right, feed)) == expected


@pytest.mark.parametrize(("type_", "column"), [(ir.JoinType.LEFT_SINGLE, 4), (ir.JoinType.RIGHT_SINGLE, 1)])
def test_a_single_join_of_no_rows_has_none_although_no_column_of_them_is_read(type_: ir.JoinType, column: int) -> None:
    """And so does one whose other side has several rows, which each would match."""
    single = project(join(LEFT, RIGHT, type_, lit(True)), col(column, F64))
    left: list[naive.Row] = [(1, 0.5, "a")] * 3
    right: list[naive.Row] = [(1, 0.5)] * 3
    assert run(single, *([], right) if type_ is ir.JoinType.LEFT_SINGLE else (left, [])) == []


@pytest.mark.parametrize(
    "type_",
    [join_type for join_type in ir.JoinType if join_type.value.startswith(("left", "inner"))],
    ids=lambda join_type: join_type.value,
)
@FEW
@given(left=LEFT_ROWS, right=RIGHT_ROWS)
def test_lateral_joins(type_: ir.JoinType, left: list[naive.Row], right: list[naive.Row]) -> None:
    """The right side reads the left row in its own filter; that is the join's condition by another way."""
    inner = filtered(RIGHT, eq(col(0), col(0, outer=1)))
    relation = join(LEFT, inner, type_, call("lt", col(1, F64), col(4, F64)), lateral=True)

    def matches(one: naive.Row, other: naive.Row) -> bool | None:
        if not naive.equal(one[0], other[0]):
            return False
        return None if None in (one[1], other[1]) else wider((1, one[1]), (1, other[1]))

    try:
        expected = naive.same(naive.join(left, right, type_, matches, (3, 2)))
    except ValueError:
        with pytest.raises(duckdb.Error, match="More than one row"):
            run(relation, left, right)
    else:
        assert naive.same(run(relation, left, right)) == expected


@pytest.mark.parametrize("operation", ir.SetOperation)
@pytest.mark.parametrize("wide", [1_000, 1], ids=["few columns", "many columns"])
@FEW
@given(inputs=st.lists(RIGHT_ROWS, min_size=2, max_size=4))
def test_set_operations(wide: int, operation: ir.SetOperation, inputs: list[list[naive.Row]]) -> None:
    reads = [read(f"t{at}", k=I64, w=F64) for at in range(len(inputs))]
    data = {read.source: table(read, input_rows) for read, input_rows in zip(reads, inputs, strict=True)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegate.planner.sql.relations.set._WIDE", wide)
        result_rows = rows(plan(combine(operation, *reads)), data)
    assert naive.same(result_rows) == naive.combine(operation, inputs)


@pytest.mark.parametrize(
    "operation",
    [
        ir.SetOperation.UNION_DISTINCT,
        ir.SetOperation.MINUS_PRIMARY,
        ir.SetOperation.INTERSECTION_PRIMARY,
        ir.SetOperation.INTERSECTION_MULTISET,
    ],
)
def test_a_set_of_many_columns_has_no_distinct_whose_columns_duckdb_compares_in_pairs(
    operation: ir.SetOperation,
) -> None:
    inputs = [read(name, **{f"c{at}": I64 for at in range(1_001)}) for name in "tu"]
    assert not re.search("DISTINCT [*]|EXCEPT [(]|INTERSECT [(]", statement(combine(operation, *inputs)))


def test_the_keys_of_groups_are_one_set_because_duckdb_compares_a_list_in_pairs() -> None:
    relation = aggregate(LEFT, [col(0), col(2, TEXT)], measure("sum", col(0)))
    bracketed = statement(relation)
    assert "GROUP BY (1, 2)" in bracketed
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE in0 (c0 BIGINT, c1 DOUBLE, c2 VARCHAR)")
        plans = [
            connection.execute(f"EXPLAIN {sql}").fetchall() for sql in (bracketed, bracketed.replace("(1, 2)", "1, 2"))
        ]
    assert plans[0] == plans[1]


@FEW
@given(left=LEFT_ROWS, right=RIGHT_ROWS, feed=FEEDS)
def test_union_all_keeps_the_order_of_inputs_and_rows(
    left: list[naive.Row], right: list[naive.Row], feed: Feed
) -> None:
    relation = combine(ir.SetOperation.UNION_ALL, project(LEFT, col(0), col(1, F64)), RIGHT)
    result_rows = run(relation, left, right, feed)
    assert [row[0] for row in result_rows] == [row[0] for row in (*left, *right)]


@FEW
@given(left=LEFT_ROWS, bound=st.integers(0, 3), feed=FEEDS)
def test_a_filter_keeps_what_is_true_in_order(left: list[naive.Row], bound: int, feed: Feed) -> None:
    result_rows = run(project(filtered(LEFT, call("gt", col(0), lit(bound))), col(0), col(2, TEXT)), left, feed=feed)
    assert result_rows == [(row[0], row[2]) for row in left if row[0] is not None and row[0] > bound]


DIRECTIONS = st.sampled_from([direction for direction in ir.Direction if direction is not ir.Direction.CLUSTERED])


@FEW
@given(left=LEFT_ROWS, how=st.tuples(DIRECTIONS, DIRECTIONS), feed=FEEDS)
def test_a_sort_orders_nulls_and_nan_as_its_keys_say(
    left: list[naive.Row], how: tuple[ir.Direction, ir.Direction], feed: Feed
) -> None:
    keys = [ir.SortKey(expression=col(1, F64), direction=how[0]), ir.SortKey(expression=col(0), direction=how[1])]
    result_rows = run(project(sort(LEFT, *keys), col(0), col(1, F64)), left, feed=feed)
    expected = naive.ordered([row[:2] for row in left], [(1, how[0]), (0, how[1])])
    assert [tuple(map(naive.key, row)) for row in result_rows] == [tuple(map(naive.key, row)) for row in expected]


@FEW
@given(left=LEFT_ROWS)
def test_a_clustered_sort_puts_equal_keys_together(left: list[naive.Row]) -> None:
    keys = [row[0] for row in run(sort(LEFT, ir.SortKey(expression=col(0), direction=ir.Direction.CLUSTERED)), left)]
    runs = 1 + sum(one != other for one, other in pairwise(keys))
    assert not keys or runs == len(set(keys))


@FEW
@given(left=LEFT_ROWS, count=st.integers(0, 6), offset=st.integers(0, 6), how=DIRECTIONS, feed=FEEDS)
def test_a_fetch_takes_the_front_of_a_sort_through_projections(
    left: list[naive.Row], count: int, offset: int, how: ir.Direction, feed: Feed
) -> None:
    ordered = sort(LEFT, ir.SortKey(expression=col(1, F64), direction=how))
    result_rows = run(fetch(project(ordered, col(1, F64)), count, offset), left, feed=feed)
    expected = naive.ordered([row[1:2] for row in left], [(0, how)])[offset : offset + count]
    assert [naive.key(row[0]) for row in result_rows] == [naive.key(row[0]) for row in expected]


@FEW
@given(left=LEFT_ROWS, count=st.integers(0, 6), offset=st.integers(0, 6), ties=st.booleans(), how=DIRECTIONS)
def test_a_top_n_brings_those_that_tie_with_its_last_row(
    left: list[naive.Row], count: int, offset: int, ties: bool, how: ir.Direction
) -> None:
    keys = [ir.SortKey(expression=col(1, F64), direction=how)]
    result_rows = run(project(topn(LEFT, keys, count, offset, ties), col(1, F64)), left)
    ordered = [naive.key(row[0]) for row in naive.ordered([row[1:2] for row in left], [(0, how)])]
    end = offset + count
    while ties and count and 0 < end < len(ordered) and ordered[end] == ordered[end - 1]:
        end += 1
    assert [naive.key(row[0]) for row in result_rows] == ordered[offset:end]


@FEW
@given(left=LEFT_ROWS, feed=FEEDS)
def test_an_aggregate_has_a_row_per_group(left: list[naive.Row], feed: Feed) -> None:
    condition = call("gt", col(1, F64), lit(0.0))
    measures = [
        measure("count"),
        measure("count", col(1, F64), distinct=True),
        measure("sum", col(0), condition=condition),
    ]
    result_rows = run(aggregate(LEFT, [col(0), col(2, TEXT)], *measures), left, feed=feed)
    expected = []
    for keys, members in naive.groups(left, [0, 2]).items():
        distinct = {naive.key(row[1]) for row in members if row[1] is not None}
        summed = [row[0] for row in members if row[1] is not None and (math.isnan(row[1]) or row[1] > 0)]
        total = sum(value for value in summed if value is not None) if any(v is not None for v in summed) else None
        expected.append((*keys, len(members), len(distinct), total))
    assert naive.same(result_rows) == naive.same(expected)


@FEW
@given(
    left=LEFT_ROWS,
    some=st.lists(st.sampled_from([(), (0,), (1,), (0, 1)]), min_size=2, max_size=4),
    times=st.sampled_from([1, 33]),
)
def test_grouping_sets_are_numbered_and_repeated_as_asked(
    left: list[naive.Row], some: list[tuple[int, ...]], times: int
) -> None:
    sets = some * times
    result_rows = run(aggregate(LEFT, [col(0), col(2, TEXT)], measure("count"), sets=sets), left)
    expected = [
        (*(keys[members.index(at)] if at in members else None for at in (0, 1)), len(rows_), number)
        for number, members in enumerate(sets)
        for keys, rows_ in naive.groups(left, [(0, 2)[at] for at in members]).items()
    ]
    assert naive.same(result_rows) == naive.same(expected)


@pytest.mark.parametrize("step", [1, 2], ids=["many sets", "fewer sets"])
def test_grouping_sets_of_more_keys_than_one_number_has_bits_for_are_numbered(step: int) -> None:
    wide = read("w", **{f"k{at}": I64 for at in range(70)})
    sets = [*((at,) for at in range(0, 70, step)), (0, 69), ()]
    result_rows = rows(plan(aggregate(wide, [col(at) for at in range(70)], sets=sets)), {"w": table(wide, [range(70)])})
    expected = [(*(at if at in members else None for at in range(70)), number) for number, members in enumerate(sets)]
    assert sorted(result_rows, key=lambda row: row[-1]) == expected


def test_a_set_number_is_asked_for_once_whatever_the_sets() -> None:
    prepared = prepare(plan(aggregate(LEFT, [col(0), col(2, TEXT)], sets=[(0,), (1,), (0, 1), ()])), TaskOptions())
    [pipeline] = prepared.physical({"l": SourceShape(feed=Feed.FILES, size_class=1)}).pipelines
    assert pipeline.root.sql.count("GROUPING(") == 1


def test_many_grouping_sets_are_groups_of_one_set() -> None:
    sets = [(at % 2,) for at in range(100)]
    prepared = prepare(plan(aggregate(LEFT, [col(0), col(2, TEXT)], sets=sets)), TaskOptions())
    [pipeline] = prepared.physical({"l": SourceShape(feed=Feed.FILES, size_class=1)}).pipelines
    assert "GROUPING SETS" not in pipeline.root.sql


@FEW
@given(left=LEFT_ROWS)
def test_an_aggregate_of_nothing_has_one_row_and_a_distinct_of_nothing_none(left: list[naive.Row]) -> None:
    assert run(aggregate(filtered(LEFT, lit(False)), [], measure("count")), left) == [(0,)]
    assert run(aggregate(filtered(LEFT, lit(False)), [col(0)]), left) == []


@FEW
@given(left=LEFT_ROWS, feed=FEEDS)
def test_an_expand_gives_each_row_once_per_alternative_in_order(left: list[naive.Row], feed: Feed) -> None:
    result_rows = run(expand(LEFT, [col(0), col(2, TEXT)], [col(0), lit(None, TEXT)]), left, feed=feed)
    assert result_rows == [row for left_row in left for row in ((left_row[0], left_row[2], 0), (left_row[0], None, 1))]
