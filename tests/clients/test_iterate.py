"""Loops made with substrait's builders, run for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from substrait.algebra_pb2 import JoinRel, SetRel
from substrait.builders import plan as p
from substrait.builders.extended_expression import column, literal, scalar_function
from substrait.builders.type import i64, named_struct, struct
from substrait.dataframe import default_registry

import tidegate
from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.ir.visit import relations
from tidegate.plans import iterate
from tidegate.proto.values import PlanBytes

REGISTRY = default_registry()
COMPARISON = "extension:io.substrait:functions_comparison"
ARITHMETIC = "extension:io.substrait:functions_arithmetic"
EDGES = pa.table({"a": pa.array([1, 2, 3, 7], pa.int64()), "b": pa.array([2, 3, 1, 8], pa.int64())})


def columns(*names: str) -> Any:
    return named_struct(list(names), struct([i64(nullable=False) for _ in names], nullable=False))


def edges() -> Any:
    return p.read_named_table("edges", columns("a", "b"))


def following(rows: Any) -> Any:
    """The nodes that an edge leads to from those in the first column."""
    met = scalar_function(COMPARISON, "equal", expressions=[column(0), column(1)])
    return p.select(p.join(rows, edges(), met, JoinRel.JOIN_TYPE_INNER), [column(2)])


def union(*parts: Any) -> Any:
    return p.set(parts, SetRel.SET_OP_UNION_DISTINCT)


def first_of(rows: Any) -> Any:
    return p.select(rows, [column(0)])


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as local_client:
        yield local_client


def answer(client: tidegate.Client, plan: Any) -> list[tuple[object, ...]]:
    result = client.query(plan(REGISTRY), {"edges": EDGES})
    return list(zip(*(result_column.to_pylist() for result_column in result.columns), strict=True))


def decoded(plan: Any) -> ir.Relation:
    return decode_plan(PlanBytes(binary=plan(REGISTRY).SerializeToString())).plan.root


def ones() -> Any:
    picked = scalar_function(COMPARISON, "equal", expressions=[column(0), literal(1, i64(nullable=False))])
    return first_of(p.filter(edges(), picked))


def test_with_distinct_it_is_a_union_of_the_seed_and_what_follows(client: tidegate.Client) -> None:
    assert answer(client, iterate("reached", ones(), following, distinct=True)) == [(1,), (2,), (3,)]


def test_a_seed_that_enters_counts_on_top_of_the_body(client: tidegate.Client) -> None:
    loop = iterate("reached", ones(), lambda back: union(following(back), following(back)))
    assert answer(client, loop) == [(1,), (1,), (2,), (3,)]


def test_a_loop_can_be_built_upon(client: tidegate.Client) -> None:
    loop = iterate("reached", ones(), following, distinct=True)
    above = scalar_function(COMPARISON, "gt", expressions=[column(0), literal(1, i64(nullable=False))])
    assert answer(client, following(p.filter(loop, above))) == [(3,), (1,)]


def test_the_result_keeps_the_seeds_names() -> None:
    assert list(iterate("l", edges(), lambda back: back)(REGISTRY).relations[-1].root.names) == ["a", "b"]


def test_without_a_seed_the_schema_goes_round() -> None:
    root = decoded(iterate("l", None, first_of, schema=columns("a")))
    assert isinstance(root, ir.Iterate)
    assert (root.input, len(root.schema)) == (None, 1)


def test_a_limit_on_rounds() -> None:
    root = decoded(iterate("l", ones(), following, max_rounds=7, at_limit="return"))
    assert isinstance(root, ir.Iterate)
    assert (root.max_rounds, root.at_limit) == (7, ir.AtLimit.RETURN)


def test_a_loop_inside_of_another_may_read_both() -> None:
    """Mutual recursion is that: a loop inside the other one's body that reads the other one."""

    def outer_body(outer: Any) -> Any:
        inner: Callable[[Any], Any] = lambda back: union(following(outer), following(back))  # noqa: E731
        return iterate("inner", first_of(edges()), inner)

    root = decoded(iterate("outer", ones(), outer_body))
    loops = [relation for relation in relations(root) if isinstance(relation, ir.Iterate)]
    back = {relation.name: relation.loop for relation in relations(root) if isinstance(relation, ir.Reference)}
    assert back == {loop.name: loop.loop for loop in loops}
    assert [loop.name for loop in loops] == ["outer", "inner"]


def test_two_loops_that_read_each_other_find_what_both_mean(client: tidegate.Client) -> None:
    """Nodes an even number of edges away from 1, by way of those that are an odd number away: all three of a circle."""

    def odd(even: Any) -> Any:
        return iterate("odd", following(even), lambda back: following(following(back)), distinct=True)

    even = iterate("even", ones(), lambda back: following(odd(back)), distinct=True)
    assert answer(client, even) == [(1,), (2,), (3,)]


def test_the_body_may_compute() -> None:
    plus = scalar_function(ARITHMETIC, "add", expressions=[column(0), literal(1, i64(nullable=False))])
    root = decoded(iterate("l", ones(), lambda back: p.select(back, [plus]), max_rounds=3))
    assert isinstance(root, ir.Iterate)


def test_without_seed_and_schema_nobody_knows_what_goes_round() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="has no seed: give the schema"):
        iterate("l", None, first_of)


def test_what_happens_at_the_limit_is_one_of_two_things() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="at_limit must be one of error, return, not 'stop'"):
        iterate("l", ones(), following, at_limit="stop")
