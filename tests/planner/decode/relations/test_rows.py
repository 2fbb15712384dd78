"""Relations that keep, order, repeat or combine whole rows: sort, fetch, top-n, set, expand, exchange, reference."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t

from ..plans import (
    I32,
    I64,
    I64_NULL,
    TEXT,
    TRUE,
    Node,
    decode,
    decode_binary,
    field,
    filter_,
    number,
    only,
    plan,
    problem,
    problems,
    table,
)

ASCENDING = {"expr": field(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}


def fetch(**how: object) -> Node:
    return {"fetch": {"input": table(I64), **how}}


# ----------------------------------------------------------------------------------------------- sort and fetch


@pytest.mark.parametrize("direction", [*ir.Direction])
def test_directions(direction: ir.Direction) -> None:
    sorts = [{"expr": field(0), "direction": f"SORT_DIRECTION_{direction.name}"}]
    root = only(decode(plan({"sort": {"input": table(I64), "sorts": sorts}}, ["a"])).plan.root, ir.Sort)
    assert root.keys[0].direction is direction


@pytest.mark.parametrize(
    ("sorts", "reason"),
    [
        ([], "MISSING"),
        ([{"expr": field(0)}], "MISSING"),
        ([{"expr": field(0), "comparisonFunctionReference": 1}], "UNSUPPORTED_SORT"),
        ([{"expr": field(4), "direction": 1}], "OUT_OF_RANGE"),
    ],
)
def test_faults_of_a_sort(sorts: list[Node], reason: str) -> None:
    assert problem(plan({"sort": {"input": table(I64), "sorts": sorts}}, ["a"])).reason == reason


def test_a_fetch_by_expressions() -> None:
    root = only(decode(plan(fetch(offsetExpr=number(2), countExpr=number(3)), ["a"])).plan.root, ir.Fetch)
    assert (root.offset.value, root.count.value) == (2, 3)


@pytest.mark.parametrize(
    ("how", "count"), [({"count": "3"}, 3), ({"count": "0"}, 0), ({"count": "-1"}, None), ({}, None)]
)
def test_a_fetch_by_numbers(how: Node, count: int | None) -> None:
    root = only(decode_binary(plan(fetch(offset="2", **how), ["a"])).plan.root, ir.Fetch)
    assert root.offset.value == 2
    assert (root.count.value if root.count else None) == count


@pytest.mark.parametrize(("rows", "wanted"), [(2**63 - 2, 2**63 - 2), (2**63 - 1, None)])
def test_a_count_that_no_input_reaches_is_no_limit(rows: int, wanted: int | None) -> None:
    for how in ({"offset": str(rows), "count": str(rows)}, {"offsetExpr": number(rows), "countExpr": number(rows)}):
        root = only(decode_binary(plan(fetch(**how), ["a"])).plan.root, ir.Fetch)
        assert (root.count.value if root.count else None, root.offset.value) == (wanted, rows)


@pytest.mark.parametrize(("minor", "count"), [(53, 0), (62, 0), (63, None), (106, None)])
def test_an_absent_count_was_a_zero_until_it_could_be_absent(minor: int, count: int | None) -> None:
    root = only(decode_binary(plan(fetch(offset="2"), ["a"], version={"minorNumber": minor})).plan.root, ir.Fetch)
    assert (root.count.value if root.count else None) == count


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"offset": "-2"}, "NEGATIVE"),
        ({"count": "-2"}, "NEGATIVE"),
        ({"countExpr": number(-1)}, "NEGATIVE"),
        ({"countExpr": {"cast": {"type": {"i32": {}}, "input": number(-1)}}}, "NEGATIVE"),
        ({"countExpr": {"literal": {"string": "x"}}}, "NOT_INTEGER"),
        ({"countExpr": field(0)}, "OUT_OF_RANGE"),
    ],
)
def test_faults_of_a_fetch(how: Node, reason: str) -> None:
    assert problem(plan(fetch(**how), ["a"])).reason == reason


@pytest.mark.parametrize(("mode", "ties"), [("FETCH_MODE_ROWS_ONLY", False), ("FETCH_MODE_WITH_TIES", True)])
def test_top_n_sorts_and_fetches(mode: str, *, ties: bool) -> None:
    top = {"topN": {"input": table(I64), "sorts": [ASCENDING], "count": number(3), "mode": mode}}
    root = only(decode(plan(top, ["a"])).plan.root, ir.TopN)
    assert (root.ties, root.count.value, root.offset) == (ties, 3, None)


def test_top_n_needs_a_mode_and_an_order() -> None:
    assert [p.reason for p in problems(plan({"topN": {"input": table(I64)}}, ["a"]))] == ["MISSING", "MISSING"]


# ---------------------------------------------------------------------------------------------------------- set

R, N = I64, I64_NULL
# the specification's example: three inputs in all combinations of required and nullable
INPUTS = ((R, R, R, R, N, N, N, N), (R, R, N, N, R, R, N, N), (R, N, R, N, R, N, R, N))


@pytest.mark.parametrize(
    ("operation", "output"),
    [
        ("MINUS_PRIMARY", "RRRRNNNN"),
        ("MINUS_PRIMARY_ALL", "RRRRNNNN"),
        ("MINUS_MULTISET", "RRRRNNNN"),
        ("INTERSECTION_PRIMARY", "RRRRRNNN"),
        ("INTERSECTION_MULTISET", "RRRRRRRN"),
        ("INTERSECTION_MULTISET_ALL", "RRRRRRRN"),
        ("UNION_DISTINCT", "RNNNNNNN"),
        ("UNION_ALL", "RNNNNNNN"),
    ],
)
def test_operations_and_their_nullability(operation: str, output: str) -> None:
    tables = [table(*types, name=f"t{index}") for index, types in enumerate(INPUTS)]
    relation = {"set": {"inputs": tables, "op": f"SET_OP_{operation}"}}
    root = only(decode(plan(relation, [*"abcdefgh"])).plan.root, ir.Set)
    assert root.operation is ir.SetOperation[operation]
    assert "".join("N" if type_.nullable else "R" for type_ in root.schema) == output


@pytest.mark.parametrize(
    ("inputs", "operation", "reason"),
    [
        ([table(I64)], 6, "MISSING"),
        ([table(I64), table(I64)], 0, "MISSING"),
        ([table(I64), table(I32)], 6, "MIXED_TYPES"),
        ([table(I64), table(I64, I64)], 6, "WRONG_WIDTH"),
    ],
)
def test_faults_of_a_set(inputs: list[Node], operation: int, reason: str) -> None:
    assert problem(plan({"set": {"inputs": inputs, "op": operation}}, ["a"])).reason == reason


# --------------------------------------------------------------------------------------- expand and exchange


def test_expand_gives_a_row_for_every_duplicate_and_numbers_them() -> None:
    fields = [
        {"switchingField": {"duplicates": [field(0), number(1), number(2)]}},
        {"switchingField": {"duplicates": [number(5)]}},
        {"consistentField": field(1)},
    ]
    relation = {"expand": {"input": table(I64, TEXT), "fields": fields}}
    root = only(decode(plan(relation, [*"abcd"])).plan.root, ir.Expand)
    assert len(root.alternatives) == 3
    assert [row[1].value for row in root.alternatives] == [5, None, None]
    assert [type_.nullable for type_ in root.schema] == [False, True, False, False]
    assert root.schema[-1] == t.Integer(bits=64, nullable=False)


def test_the_duplicates_of_a_field_have_one_type() -> None:
    fields = [{"switchingField": {"duplicates": [field(0), field(1)]}}]
    assert (
        problem(plan({"expand": {"input": table(I64, TEXT), "fields": fields}}, ["a", "number"])).reason
        == "MIXED_TYPES"
    )


SHORT = {
    "expand": {
        "input": table(I64, TEXT, I64),
        "fields": [{"switchingField": {"duplicates": [field(0), number(1)]}}],
    }
}


def test_columns_beyond_the_fields_of_an_expansion_are_left_out() -> None:
    decoded = decode(plan(SHORT, ["a", "number"]))
    assert [str(type_) for type_ in decoded.plan.root.schema] == ["i64", "i64"]
    assert decoded.warnings == (
        "relations[0].root.input.expand: the expansion leaves out the input's columns from 1 on",
    )


def test_columns_beyond_the_fields_of_an_expansion_pass_where_only_that_fits() -> None:
    decoded = decode(plan(SHORT, [*"abcd"]))
    root = only(decoded.plan.root, ir.Expand)
    assert [[column.index for column in row[1:]] for row in root.alternatives] == [[1, 2], [1, 2]]
    assert [str(type_) for type_ in root.schema] == ["i64", "string", "i64", "i64"]
    assert decoded.warnings == (
        "relations[0].root.input.expand: the expansion passes on the input's columns from 1 on",
    )


@pytest.mark.parametrize("producer", ["substrait-java", "isthmus"])
def test_an_expansion_of_substrait_java_has_no_number(producer: str) -> None:
    node = {**plan(SHORT, ["a"]), "version": {"minorNumber": 100, "producer": producer}}
    assert [str(type_) for type_ in decode(node).plan.root.schema] == ["i64"]


def test_an_exchange_is_its_input() -> None:
    exchange = {"exchange": {"input": table(I64), "partitionCount": 4, "roundRobin": {}}}
    assert isinstance(decode(plan(exchange, ["a"])).plan.root, ir.Read)


# ---------------------------------------------------------------------------------------------------- references


def use(ordinal: int) -> Node:
    return {"reference": {"subtreeOrdinal": ordinal}}


def test_a_common_subtree_is_decoded_once_and_used_by_number() -> None:
    decoded = decode(plan({"cross": {"left": use(0), "right": use(0)}}, ["a", "b"], table(I64))).plan
    root = only(decoded.root, ir.Cross)
    assert (root.left.ordinal, root.right.ordinal) == (0, 0)
    assert [type(relation) for relation in decoded.shared] == [ir.Read]


def test_a_subtree_comes_after_those_that_it_uses() -> None:
    decoded = decode(plan(use(0), ["a"], filter_(use(1), TRUE), table(I64))).plan
    assert [type(relation) for relation in decoded.shared] == [ir.Read, ir.Filter]
    assert decoded.root.ordinal == 1
    assert decoded.shared[1].input.ordinal == 0


def test_subtrees_that_use_each_other_are_a_problem() -> None:
    reported = problem(plan(use(0), ["a"], filter_(use(1), TRUE), filter_(use(0), TRUE)))
    assert (reported.place, reported.reason) == ("relations[1].rel.filter.input.reference", "CIRCULAR_REFERENCE")


@pytest.mark.parametrize("ordinal", [-1, 1, 2, 99])
def test_only_subtrees_can_be_used(ordinal: int) -> None:
    reported = problem(plan(use(ordinal), ["a"], table(I64)))
    assert reported.reason == "OUT_OF_RANGE"
    assert "[0]" in reported.message


def test_a_subtree_that_nothing_uses_is_checked_all_the_same() -> None:
    assert problem(plan(table(I64), ["a"], filter_(table(I64), number(1)))).place == "relations[0].rel.filter.condition"
