"""`AggregateRel`."""

from __future__ import annotations

import pytest

from tidegate.planner import ir
from tidegate.planner.ir import types as t

from ..plans import (
    I64,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    decode_binary,
    field,
    function,
    number,
    only,
    plan,
    problem,
    problems,
    table,
)

SUM = {"measure": function("sum", field(0))}


def aggregate(*groupings: Node, keys: tuple[Node, ...] = (), measures: tuple[Node, ...] = (SUM,)) -> Node:
    body = {
        "input": table(I64, TEXT),
        "groupings": [*groupings],
        "groupingExpressions": [*keys],
        "measures": [*measures],
    }
    return {"aggregate": body}


def refers(*positions: int) -> Node:
    return {"expressionReferences": [*positions]}


def old(*expressions: Node) -> Node:
    return {"groupingExpressions": [*expressions]}


def test_keys_come_before_measures() -> None:
    root = only(decode(plan(aggregate(refers(0), keys=(field(1),)), ["b", "s"])).plan.root, ir.Aggregate)
    assert root.grouping_sets == ((0,),)
    assert [measure.function.name for measure in root.measures] == ["sum"]
    assert root.schema == (t.String(nullable=False), t.Integer(bits=64))


def test_without_groupings_it_is_one_group() -> None:
    assert only(decode(plan(aggregate(), ["s"])).plan.root, ir.Aggregate).grouping_sets == ((),)


def test_old_groupings_hold_their_own_expressions() -> None:
    root = only(decode_binary(plan(aggregate(old(field(1), field(0))), ["b", "a", "s"])).plan.root, ir.Aggregate)
    assert [key.index for key in root.keys] == [1, 0]
    assert root.grouping_sets == ((0, 1),)


@pytest.mark.parametrize("read", [decode, decode_binary])
def test_old_grouping_sets_share_expressions_that_are_written_alike(read: type) -> None:
    sum_of_two = call("add", field(0), number(1))
    written = aggregate(old(field(1), sum_of_two), old(sum_of_two), old())
    root = only(read(plan(written, ["b", "x", "s", "set"])).plan.root, ir.Aggregate)
    assert len(root.keys) == 2
    assert root.grouping_sets == ((0, 1), (1,), ())


def test_of_both_encodings_at_once_the_new_one_counts() -> None:
    both = {**refers(0), **old(field(1))}
    root = only(decode_binary(plan(aggregate(both, keys=(field(1),)), ["b", "s"])).plan.root, ir.Aggregate)
    assert len(root.keys) == 1


def test_several_grouping_sets_make_missing_keys_nullable_and_are_numbered() -> None:
    written = aggregate(refers(0, 1), refers(0), keys=(field(0), field(1)))
    root = only(decode(plan(written, ["a", "b", "s", "set"])).plan.root, ir.Aggregate)
    assert [type_.nullable for type_ in root.schema] == [False, True, True, False]
    assert root.schema[-1] == t.Integer(bits=32, nullable=False)


def cube(**common: object) -> Node:
    """Groups by (a, b), by a and as a whole."""
    whole = aggregate(refers(0, 1), refers(0), refers(), keys=(field(0), field(1)))
    return {"aggregate": {**whole["aggregate"], "common": common}} if common else whole


def computed(*emitted: int) -> Node:
    """Two expressions over a cube: the first key, and column 2."""
    expressions = [field(0), field(2)]
    common = {"emit": {"outputMapping": [*emitted]}}
    return {"project": {"input": cube(), "expressions": expressions, "common": common}}


ISTHMUS: Node = {"version": {"producer": "isthmus"}}
DATAFUSION: Node = {"version": {"producer": "datafusion"}}


def test_the_number_of_names_tells_whether_the_sets_are_numbered() -> None:
    root = only(decode(plan(cube(), ["a", "b", "s"], **ISTHMUS)).plan.root, ir.Project)
    assert [column.index for column in root.expressions] == [0, 1, 2]
    assert isinstance(decode(plan(cube(), ["a", "b", "s", "set"], **ISTHMUS)).plan.root, ir.Aggregate)


def test_columns_beyond_an_unnumbered_aggregate_tell_that_it_is_numbered() -> None:
    root = only(decode(plan(computed(4, 5), ["a", "s"], **ISTHMUS)).plan.root, ir.Project)
    assert [column.index for column in root.expressions] == [0, 2]


@pytest.mark.parametrize("version", [ISTHMUS, {}])
def test_where_columns_fit_with_and_without_numbers_it_is_an_error(version: Node) -> None:
    refused = problem(plan(computed(3, 4), ["a", "s"], **version))
    assert (refused.reason, refused.place) == ("AMBIGUOUS_GROUPING", "relations[0].root.input.project.input.aggregate")


def test_a_producer_that_follows_substrait_numbers_the_sets() -> None:
    root = only(decode(plan(computed(3, 4), ["set", "a"], version={"producer": "velox"})).plan.root, ir.Project)
    assert [column.index for column in root.expressions] == [3, 0]


def test_an_emit_settles_the_columns_of_an_aggregate() -> None:
    chosen = cube(emit={"outputMapping": [0, 1, 2]})
    common = {"emit": {"outputMapping": [3, 4]}}
    written = {"project": {"input": chosen, "expressions": [field(0), field(2)], "common": common}}
    root = only(decode(plan(written, ["a", "s"], **ISTHMUS)).plan.root, ir.Project)
    assert [column.index for column in root.expressions] == [0, 2]


def test_datafusion_has_bits_of_missing_keys_between_keys_and_measures() -> None:
    root = only(decode(plan(cube(), ["a", "b", "bits", "s"], **DATAFUSION)).plan.root, ir.Project)
    keys, bits, total = root.expressions[:2], root.expressions[2], root.expressions[3]
    assert [column.index for column in (*keys, total)] == [0, 1, 2]
    assert [value.value for _, value in bits.clauses] == [0b00, 0b01]
    assert bits.otherwise.value == 0b11
    assert bits.type == t.Integer(bits=8, signed=False, nullable=False)


def test_datafusion_counts_copies_of_a_set_above_the_bits_of_its_keys() -> None:
    twice = aggregate(refers(0), refers(0), keys=(field(0),))
    root = only(decode(plan(twice, ["a", "bits", "s"], **DATAFUSION)).plan.root, ir.Project)
    bits = root.expressions[1]
    assert ([value.value for _, value in bits.clauses], bits.otherwise.value) == ([0b00], 0b10)


@pytest.mark.parametrize("read", [decode, decode_binary])
def test_datafusion_writes_a_key_for_each_set_and_counts_it_once(read: type) -> None:
    written = aggregate(refers(0), refers(1, 2), keys=(field(1), field(0), field(1)))
    root = only(read(plan(written, ["b", "a", "bits", "s"], **DATAFUSION)).plan.root, ir.Project)
    grouped = only(root.input, ir.Aggregate)
    assert [key.index for key in grouped.keys] == [1, 0]
    assert grouped.grouping_sets == ((0,), (1, 0))


def test_measures_have_filters_sorts_and_distinct() -> None:
    sorts = [{"expr": field(1), "direction": 2}]
    measure = {
        "measure": function("sum", field(0), sorts=sorts, invocation="AGGREGATION_INVOCATION_DISTINCT"),
        "filter": TRUE,
    }
    (decoded_measure,) = only(decode(plan(aggregate(measures=(measure,)), ["s"])).plan.root, ir.Aggregate).measures
    assert decoded_measure.distinct
    assert decoded_measure.condition.value is True
    assert decoded_measure.sorts[0].direction is ir.Direction.ASC_NULLS_LAST


def test_a_count_of_rows_is_not_distinct_and_has_no_order() -> None:
    sorts = [{"expr": field(1), "direction": 2}]
    sorted_rows = {"measure": function("count", sorts=sorts)}
    (counted,) = only(decode(plan(aggregate(measures=(sorted_rows,)), ["s"])).plan.root, ir.Aggregate).measures
    assert not counted.sorts
    distinct = {"measure": function("count", invocation="AGGREGATION_INVOCATION_DISTINCT")}
    refused = problem(plan(aggregate(measures=(distinct,)), ["s"]))
    assert refused.message == "a function without arguments cannot be DISTINCT"


def test_old_arguments_are_plain_expressions() -> None:
    measure = {"measure": {"functionReference": 6, "args": [field(0)]}}
    (decoded_measure,) = only(
        decode_binary(plan(aggregate(measures=(measure,)), ["s"])).plan.root, ir.Aggregate
    ).measures
    assert decoded_measure.arguments[0].index == 0


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        (aggregate(refers(3), keys=(field(0),)), "OUT_OF_RANGE"),
        (aggregate(refers(), keys=(field(0),)), "UNUSED_GROUPING"),
        (aggregate({**refers(0), **old(number(1))}, keys=(field(0),)), "DIFFERENT_GROUPINGS"),
        (
            aggregate({**refers(0, 1), **old(field(1), field(0))}, keys=(field(0), field(1))),
            "DIFFERENT_GROUPINGS",
        ),
        (aggregate(measures=()), "MISSING"),
        (aggregate(measures=({"measure": function("sum", field(0), phase=1)},)), "UNSUPPORTED_PHASE"),
        (aggregate(measures=({**SUM, "filter": number(1)},)), "NOT_BOOLEAN"),
        (aggregate(measures=({"measure": function("sum", field(1))},)), "NO_MATCHING_FUNCTION"),
    ],
)
def test_faults_of_an_aggregate(written: Node, reason: str) -> None:
    assert reason in {problem.reason for problem in problems(plan(written, ["s"]))}


def test_the_place_of_a_measure_is_in_its_relation() -> None:
    reported = problem(plan(aggregate(measures=({"measure": {"functionReference": 99}},)), ["s"]))
    assert reported.place == "relations[0].root.input.aggregate.measures[0].measure.function_reference"
