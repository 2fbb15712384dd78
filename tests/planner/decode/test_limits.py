"""Class of bug: a plan that takes memory or time out of proportion before anybody refuses it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator

import pytest

from tidegate.operators.core.interrupts import Watch, looking
from tidegate.planner.decode import decode_plan
from tidegate.planner.decode.encoding import counting, json_nodes, limits
from tidegate.planner.decode.encoding import protobuf_nodes as wire
from tidegate.planner.decode.encoding.json_text import without_texts
from tidegate.planner.decode.encoding.message_classes import RECURSIVE
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from .plans import (
    I64,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    emit,
    encode,
    field,
    filter_,
    function,
    number,
    plan,
    problem,
    project,
    table,
)
from .test_depth import deep_plan, tagged


def literals(count: int) -> Node:
    """A filter by a list of so many literals."""
    options = [{"literal": {"i64": str(number)}} for number in range(count)]
    return plan(filter_(table(I64), {"singularOrList": {"value": field(0), "options": options}}), ["a"])


def list_of(count: int) -> Node:
    """A list literal of so many literals, and itself."""
    values = [{"i64": str(number)} for number in range(count - 1)]
    return plan(project(table(I64), {"literal": {"list": {"values": values}}}), ["a", "b"])


def expressions(count: int) -> Node:
    """A projection of so many expressions, over a read: relations count too."""
    return plan(project(table(I64), *[field(0)] * (count - 2)), ["a"] * (count - 1))


def relations(count: int) -> Node:
    """A union of so many reads, less one."""
    return plan({"set": {"inputs": [table(I64)] * (count - 1), "op": "SET_OP_UNION_ALL"}}, ["a"])


def branches(count: int) -> Node:
    """A switch of so many branches, less four: over a read, of a column."""
    ifs = [{"if": {"i64": str(at)}, "then": {"literal": {"i64": "1"}}} for at in range(count - 4)]
    switch = {"switchExpression": {"match": field(0), "ifs": ifs, "else": {"literal": {"i64": "2"}}}}
    return plan(project(table(I64), switch), ["a", "b"])


def pairs(count: int) -> Node:
    """A filter by a list of so many pairs of literals, less five."""
    options = [{"fields": [{"literal": {"i64": str(at)}}] * 2} for at in range(count - 5)]
    return plan(filter_(table(I64), {"multiOrList": {"value": [field(0), field(0)], "options": options}}), ["a"])


def columns(count: int) -> Node:
    return plan(table(*[I64] * count), [f"c{number}" for number in range(count)])


SMALL = 40
LARGE: dict[str, tuple[limits.Limit, Callable[[int], Node]]] = {
    "literals": (limits.LITERALS, literals),
    "a list literal": (limits.LITERALS, list_of),
    "expressions": (limits.NODES, expressions),
    "relations": (limits.RELATIONS, relations),
    "branches of a switch": (limits.NODES, branches),
    "pairs in a list": (limits.NODES, pairs),
    "columns": (limits.COLUMNS, columns),
}


def lower(monkeypatch: pytest.MonkeyPatch, limit: limits.Limit, most: int) -> None:
    """The same limit, lower."""
    name = next(name for name, value in vars(limits).items() if value is limit)
    monkeypatch.setattr(limits, name, limits.Limit(what=limit.what, most=most, instead=limit.instead))


def both(node: Node) -> tuple[PlanBytes, PlanBytes]:
    return PlanBytes(binary=encode(node)), PlanBytes(json=json.dumps(node))


@pytest.mark.parametrize(("limit", "make"), LARGE.values(), ids=LARGE)
def test_a_plan_may_have_as_many_as_the_limit_says(
    limit: limits.Limit, make: Callable[[int], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    lower(monkeypatch, limit, SMALL)
    for encoded in both(make(SMALL)):
        decode_plan(encoded)


@pytest.mark.parametrize(("limit", "make"), LARGE.values(), ids=LARGE)
def test_one_more_is_refused_before_anything_is_made_of_it(
    limit: limits.Limit, make: Callable[[int], Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    lower(monkeypatch, limit, SMALL)
    monkeypatch.setattr(wire.WireNodes, "_read", None)
    monkeypatch.setattr(json_nodes.JsonNodes, "_read", None)
    for encoded in both(make(SMALL + 1)):
        with pytest.raises(PlanError, match=f"{limit.what}; at most {SMALL} are allowed: {limit.instead}") as refused:
            decode_plan(encoded)
        assert refused.value.reason == "PLAN_TOO_LARGE"


def test_a_list_of_literals_is_refused_with_the_way_out() -> None:
    lits = b"".join(tagged(2, b"\x0a\x02\x38\x01") for _ in range(100_001))
    relation = tagged(2, tagged(2, b"") + tagged(3, tagged(8, lits)))
    with pytest.raises(PlanError, match=r"more than 100,000 literals; .* bind a table in place of a list of literals"):
        decode_plan(deep_plan(relation))


def test_an_empty_literal_in_front_hides_no_expression(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, limits.NODES, SMALL)
    hidden = b"".join(tagged(3, tagged(1, b"") + tagged(3, b"")) for _ in range(SMALL))  # of two kinds the last counts
    with pytest.raises(PlanError, match=f"more than {SMALL} relations and expressions"):
        decode_plan(deep_plan(tagged(7, tagged(2, b"") + hidden)))


HOSTILE = {
    "brackets": PlanBytes(json='{"relations":' + "[" * 2_000_000),
    "brackets that close": PlanBytes(json='{"relations":' + "[" * 150_000 + "]" * 150_000 + "}"),
    "declarations": PlanBytes(binary=b"\x12\x02\x1a\x00" * 600_000),
    "declarations in JSON": PlanBytes(json='{"extensions":[' + "{}," * 600_000 + "{}]}"),
    "empty fields": PlanBytes(binary=b"\x32\x00" * 1_000_001),
    "packed numbers": PlanBytes(
        binary=tagged(3, tagged(1, tagged(5, tagged(1, tagged(2, tagged(1, b"\0" * 1_000_001))))))
    ),
    "literals in JSON": PlanBytes(json='{"a":[' + '{"literal":{"i64":"1"}},' * 100_001),
    "relations in JSON": PlanBytes(json='{"a":[' + '{"filter":{"input":{}}},' * 100_001),
}


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_what_only_costs_is_refused_unread(hostile: PlanBytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.planner.decode.whole_plan.read_json", None)
    with pytest.raises(PlanError) as refused:
        decode_plan(hostile)
    assert refused.value.reason == "PLAN_TOO_LARGE"


@pytest.mark.parametrize("many", ['"",', "{},", '"":0,', '{"a":['])
def test_json_is_counted_in_short_steps_and_no_further_than_the_limit(
    many: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other thread of the service gets a turn while a regular expression runs."""
    lengths: list[int] = []

    def pieces(text: str) -> Iterator[str]:
        for piece in without_texts(text):
            lengths.append(len(piece))
            yield piece

    monkeypatch.setattr("tidegate.planner.decode.encoding.counting.without_texts", pieces)
    with pytest.raises(PlanError, match="more than 1,000,000 fields and values"):
        decode_plan(PlanBytes(json='{"x":[' + many * (12_000_000 // len(many))))
    assert max(lengths) < 1 << 19
    assert sum(lengths) < 5_000_000


@pytest.mark.parametrize("text", ["[" * 200_000, "/" * 200_000, '"literal":' * 150_000, "{,[" * 300_000])
def test_punctuation_inside_a_text_counts_as_nothing(text: str) -> None:
    document = plan(filter_(table(I64), TRUE), ["a"], version={"producer": text})
    assert decode_plan(PlanBytes(json=json.dumps(document))).plan.producer == text


@pytest.mark.parametrize("end", ["", '"}}'])
def test_a_text_of_escapes_is_read_once(end: str) -> None:
    with pytest.raises(PlanError, match="expected a string" if not end else "exactly one root"):
        decode_plan(PlanBytes(json='{"version":{"producer":"' + '\\"' * 2_000_000 + end))


def doubled(levels: int) -> Node:
    """Relations that each join the one before with itself."""
    joins: list[Node] = [{"cross": {"left": _use(level), "right": _use(level)}} for level in range(levels)]
    return plan(_use(levels), ["a"], table(I64), *joins)


def _use(ordinal: int) -> Node:
    return {"reference": {"subtreeOrdinal": ordinal}}


def test_a_small_plan_cannot_stand_for_a_wide_one() -> None:
    reported = problem(doubled(40))
    assert reported.reason == "PLAN_TOO_LARGE"
    assert "more than 10,000 columns in one schema" in reported.message


def test_more_common_subtrees_than_one_statement_can_have_are_refused() -> None:
    most = limits.SUBTREES.most
    subtrees = [table(I64), *(filter_(_use(level), TRUE) for level in range(most - 1))]
    assert len(decode(plan(_use(most - 1), ["a"], *subtrees)).plan.shared) == most
    reported = problem(plan(_use(most), ["a"], *subtrees, table(I64)))
    assert (reported.reason, reported.place) == ("PLAN_TOO_LARGE", "relations")
    assert f"{most + 1} common subtrees, which its references read; at most {most} are allowed" in reported.message


def cells(keys: int, sets: int) -> Node:
    """An aggregate with so many keys in so many grouping sets."""
    groupings = [{"expressionReferences": list(range(keys))} for _ in range(sets)]
    grouped = {"input": table(*[I64] * keys), "groupingExpressions": [field(at) for at in range(keys)]}
    return plan({"aggregate": {**grouped, "groupings": groupings}}, [f"c{at}" for at in range(keys + 1)])


def test_more_keys_in_grouping_sets_than_rows_can_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, limits.GROUPING, 40)
    assert decode(cells(8, 5)).plan
    reported = problem(cells(7, 6))
    assert (reported.reason, reported.place) == ("PLAN_TOO_LARGE", "relations[0].root.input.aggregate")
    assert "42 keys of an aggregate times its grouping sets; at most 40 are allowed" in reported.message


def subqueries(count: int) -> Node:
    """A filter by so many subqueries, one inside of another or side by side."""
    inside = filter_(table(I64), in_(table(I64)))
    return plan(filter_(table(I64), call("and", in_(inside), *(in_(table(I64)) for _ in range(count - 2)))), ["a"])


def in_(haystack: Node) -> Node:
    return {"subquery": {"inPredicate": {"needles": [field(0)], "haystack": haystack}}}


def test_more_subqueries_than_can_be_planned_in_time_are_refused_once() -> None:
    decode(subqueries(limits.SUBQUERIES.most))
    reported = problem(subqueries(limits.SUBQUERIES.most + 20))
    assert reported.reason == "PLAN_TOO_LARGE"
    assert "more than 100 subqueries; at most 100 are allowed: join with what they read" in reported.message


def united(operation: str, inputs: int) -> Node:
    return {"set": {"inputs": [table(I64)] * inputs, "op": f"SET_OP_{operation}"}}


@pytest.mark.parametrize("operation", ["INTERSECTION_MULTISET", "INTERSECTION_MULTISET_ALL", "MINUS_MULTISET"])
def test_inputs_of_operations_on_multisets_are_counted_together(operation: str) -> None:
    most = limits.MULTISET_INPUTS.most
    decode(plan(united(operation, most), ["a"]))
    decode(plan(united("INTERSECTION_PRIMARY", most + 1), ["a"]))
    together = {"set": {"inputs": [united(operation, 2), united(operation, most - 3)], "op": f"SET_OP_{operation}"}}
    reported = problem(plan(together, ["a"]))
    assert reported.reason == "PLAN_TOO_LARGE"
    assert f"more than {most} inputs of set operations on multisets; at most {most} are allowed" in reported.message


def windowed(orders: Iterable[int]) -> Node:
    """A projection of a sum for each of these, over rows in order of a column plus the number."""
    ordered = ([{"expr": call("add", field(0), number(at)), "direction": 1}] for at in orders)
    return project(table(I64), *({"windowFunction": function("sum", field(0), sorts=sorts)} for sorts in ordered))


def one_above_the_other(count: int) -> Node:
    """So many window relations over the same order."""
    below = table(I64)
    for _ in range(count):
        below = {"window": {"input": below, "windowFunctions": [function("sum", field(0))]}}
    return below


def test_orders_of_window_functions_are_counted_together_and_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, limits.WINDOW_ORDERS, 6)
    for encoded in both(plan(windowed([1, 2, 3, 4, 5, 6, 1, 2]), ["a"] * 9)):
        decode_plan(encoded)
    for many in (windowed(range(7)), one_above_the_other(7)):
        reported = problem(plan(many, ["a"] * 8))
        assert reported.reason == "PLAN_TOO_LARGE"
        assert "more than 6 orders and partitions of its window functions; at most 6 are allowed" in reported.message


def with_parameter(letters: int, uses: int) -> Node:
    """A projection of so many uses of a parameter, a text of so many letters."""
    use = {"dynamicParameter": {"type": TEXT, "parameterReference": 1}}
    binding = {"parameterAnchor": 1, "value": {"string": "x" * letters}}
    return plan(project(table(I64), *[use] * uses), ["a"] * (uses + 1), parameterBindings=[binding])


def with_detached(letters: int, uses: int) -> Node:
    """A projection of so many uses of a detached expression, a text of so many letters."""
    repeated = plan(project(table(I64), *[{"detachedExpressionOrdinal": 0}] * uses), ["a"] * (uses + 1))
    repeated["relations"][0]["detachedExpressions"] = [{"literal": {"string": "x" * letters}}]
    return repeated


@pytest.mark.parametrize("make", [with_parameter, with_detached])
def test_the_bytes_that_a_plan_repeats_are_counted(make: Callable[[int, int], Node]) -> None:
    letters = limits.REPEATED_BYTES.most // 100
    for encoded in both(make(letters, 90)):
        decode_plan(encoded)
    for encoded in both(make(letters, 110)):
        with pytest.raises(PlanError, match=r"more than 16,777,216 bytes of parts that are written once") as e:
            decode_plan(encoded)
        assert e.value.reason == "PLAN_TOO_LARGE"


def test_columns_of_all_relations_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, limits.ALL_COLUMNS, 100)
    relation = table(*[I64] * 10)
    for _ in range(20):
        relation = filter_(relation, TRUE)
    reported = problem(plan(relation, ["a"] * 10))
    assert reported.reason == "PLAN_TOO_LARGE"
    assert "columns in all of its relations together" in reported.message


def in_each_other(levels: int, nested: Callable[[Node], Node]) -> Node:
    """Projections on top of each other, each of one column that is made of the column below."""
    relation = table(I64)
    for _ in range(levels):
        relation = project(relation, {"nested": nested(field(0))}, common=emit(1))
    return plan(relation, ["a"])


@pytest.mark.parametrize(
    "nested",
    [
        lambda column: {"struct": {"fields": [column, column]}},
        lambda column: {
            "map": {"keyValues": [{"key": number(1), "value": {"nested": {"struct": {"fields": [column] * 3}}}}]}
        },
    ],
    ids=["structs", "maps of structs"],
)
def test_types_that_double_with_each_projection_are_refused_unwalked(nested: Callable[[Node], Node]) -> None:
    """Before, 60 projections kept a core busy for ever: their type has 2**60 fields."""
    assert problem(in_each_other(28, nested)).message.endswith(limits.FIELDS.instead)


def test_types_that_nest_without_end_are_refused() -> None:
    """Before, a recursion over the type ended the request."""
    pair = {"map": {"keyValues": [{"key": number(1), "value": field(0)}]}}
    for levels, nested in ((400, {"list": {"values": [field(0)]}}), (63, {"list": {"values": [field(0)]}}), (32, pair)):
        refused = problem(in_each_other(levels, lambda _, nested=nested: nested))
        assert refused.reason == limits.REASON
        assert refused.message == "its type nests deeper than 62 levels, of which a map counts as two"
    assert decode(in_each_other(31, lambda _: pair))
    assert decode(in_each_other(62, lambda column: {"list": {"values": [column]}}))


def test_a_call_with_many_wide_arguments_can_be_stopped() -> None:
    """Fitting one argument takes as long as its type is wide."""
    wide = {"struct": {"types": [I64] * 500}}
    names = ["s", *(f"f{at}" for at in range(500))]
    read = {"read": {"baseSchema": {"names": names, "struct": {"types": [wide]}}, "namedTable": {"names": ["t"]}}}
    looks = []
    coalesce = {"extensionFunction": {"functionAnchor": 1, "name": "coalesce"}}  # in place of "equal"
    with looking(Watch(lambda: looks.append(1))):
        decode(plan(project(read, call("equal", *[field(0)] * 100), common=emit(0)), names, extensions=[coalesce]))
    assert len(looks) >= 100


def test_depth_that_references_add_up_is_refused_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    lower(monkeypatch, limits.DEPTH, 8)
    filters = [filter_(_use(level), TRUE) for level in range(8)]
    reported = problem(plan(_use(8), ["a"], table(I64), *filters))
    assert reported.reason == "PLAN_TOO_LARGE"
    assert reported.place.startswith("relations")


def test_every_recursive_message_is_counted() -> None:
    seen, pending = set(), [counting.shapes_in_plans()["substrait.Plan"]]
    while pending:
        shape = pending.pop()
        if shape.message not in seen:
            seen.add(shape.message)
            pending += shape.by_number.values()
    assert seen >= RECURSIVE


@pytest.mark.parametrize("value", ["[" * 50_000 + "]" * 50_000, '{"a":' * 50_000 + "1" + "}" * 50_000])
@pytest.mark.parametrize(
    "around", ['{"version":{"producer":%s}}', '{"relations":%s}', '{"version":%s}', '{"extensions":[%s]}']
)
def test_depth_where_none_belongs_is_malformed(around: str, value: str) -> None:
    with pytest.raises(PlanError) as refused:
        decode_plan(PlanBytes(json=around % value))
    assert refused.value.reason == "MALFORMED"
    assert len(str(refused.value)) < 1_000
