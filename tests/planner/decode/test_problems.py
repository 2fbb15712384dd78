"""Class of bug: a problem that is missed, reported twice, or reported at the wrong place."""

from __future__ import annotations

import pytest

from tidegate.planner.decode.plan_path import PlanPath
from tidegate.planner.decode.problems import LONGEST_MESSAGE, MAX_PROBLEMS, MOST_COUNTED

from .plans import (
    I32,
    I64,
    TEXT,
    TRUE,
    Node,
    call,
    decode,
    emit,
    field,
    filter_,
    number,
    plan,
    problem,
    problems,
    project,
    table,
)


def test_five_faults_are_reported_at_five_places() -> None:
    broken = project(
        filter_(table(I64, filter=field(7)), number(1)),
        call("equal", field(0), {"lambdaInvocation": {}}),
        {"scalarFunction": {"functionReference": 99}},
        common=emit(0, 55),
    )
    above = "relations[0].root.input.project"
    assert [(p.place, p.reason) for p in problems(plan(broken, ["a", "b"]))] == [
        (f"{above}.input.filter.input.read.filter.selection.direct_reference.struct_field.field", "OUT_OF_RANGE"),
        (f"{above}.input.filter.condition", "NOT_BOOLEAN"),
        (f"{above}.expressions[0].scalar_function.arguments[1].value.lambda_invocation.lambda.body", "MISSING"),
        (f"{above}.expressions[1].scalar_function.function_reference", "UNKNOWN_ANCHOR"),
        (f"{above}.common.emit.output_mapping[1]", "OUT_OF_RANGE"),
    ]


def test_nothing_above_a_broken_relation_repeats_its_problem() -> None:
    broken = project(filter_({"ddl": {}}, call("equal", field(3), number(1))), field(9), common=emit(7))
    assert problem(plan(broken, ["a"])).reason == "UNSUPPORTED_RELATION"


def test_nothing_above_a_broken_expression_repeats_its_problem() -> None:
    lost = call("and", call("equal", field(9), number(1)), TRUE)
    assert problem(plan(filter_(table(I64), lost), ["a"])).reason == "OUT_OF_RANGE"


def test_beside_a_broken_relation_the_search_goes_on() -> None:
    broken = {"cross": {"left": {"ddl": {}}, "right": filter_(table(I64), number(1))}}
    assert [p.reason for p in problems(plan(broken, ["a"]))] == ["UNSUPPORTED_RELATION", "NOT_BOOLEAN"]


def test_an_unsupported_literal_is_found_above_a_broken_relation() -> None:
    broken = filter_({"ddl": {}}, {"literal": {"userDefined": {}}})
    assert [p.reason for p in problems(plan(broken, ["a"]))] == ["UNSUPPORTED_RELATION", "UNSUPPORTED_LITERAL"]


def test_a_great_many_problems_are_counted_beyond_a_hundred() -> None:
    reported = problems(plan(project(table(I64), *[field(9)] * 250), ["a"] * 251))
    assert len(reported) == MAX_PROBLEMS + 1
    assert reported[-1].message == "150 more problems"


def test_a_plan_that_names_a_large_part_in_many_problems_is_refused_in_few_words() -> None:
    """The name is in the plan once, and in the problem of each call."""
    name, urn = "equal" * 100_000, "extension:" + "x" * 500_000
    declared = {
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": urn}],
        "extensions": [{"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": 9, "name": name}}],
    }
    unknown = {"scalarFunction": {"functionReference": 9, "arguments": [{"value": field(0)}], "outputType": I64}}
    width = 2_000
    reported = problems(plan(project(table(I64), *[unknown] * width), ["a"] * (width + 1), **declared))
    assert len(reported) == MAX_PROBLEMS + 1
    assert reported[0].message.endswith("... (500,010 characters)")
    assert max(len(one.message) for one in reported) <= LONGEST_MESSAGE
    assert reported[-1].message == f"at least {MOST_COUNTED} more problems"


@pytest.mark.parametrize(("names", "widths"), [(["a"], 1), (["a", "b", "c"], 3), ([], 0)])
def test_the_root_must_name_every_column(names: list[str], widths: int) -> None:
    reported = problem(plan(table(I64, TEXT), names))
    assert reported.place == "relations[0].root.names"
    assert reported.message.startswith(f"{widths} names for 2 columns")


def test_the_root_names_nested_fields_depth_first() -> None:
    struct = {"struct": {"types": [I64, TEXT]}}
    base = {"names": ["s", "x", "y"], "struct": {"types": [struct]}}
    read = {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}
    assert decode(plan(read, ["s", "x", "y"])).plan.names == ("s", "x", "y")
    assert problem(plan(read, ["s"])).reason == "WRONG_WIDTH"


@pytest.mark.parametrize(
    "relations", [[], [{"rel": table(I64)}], [{"root": {"input": table(I64), "names": ["a"]}}] * 2]
)
def test_a_plan_has_exactly_one_root(relations: list[Node]) -> None:
    assert [p.reason for p in problems({"relations": relations})] == ["WRONG_ROOTS"]


@pytest.mark.parametrize("root", [{}, {"filter": {}}, {"project": {"input": {}}}, {"cross": {}}, {"read": {}}])
def test_what_is_missing_is_named(root: Node) -> None:
    assert {p.reason for p in problems(plan(root, ["a"]))} == {"MISSING"}


@pytest.mark.parametrize("kind", ["ddl", "update"])
def test_relations_that_change_tables_are_refused_by_name(kind: str) -> None:
    reported = problem(plan({kind: {}}, ["a"]))
    assert reported.place == f"relations[0].root.input.{kind}"
    assert "write" in reported.message


@pytest.mark.parametrize("kind", ["extensionLeaf", "extensionSingle", "extensionMulti"])
def test_extension_relations_are_refused_with_their_type_url(kind: str) -> None:
    detail = {"@type": "type.googleapis.com/some.Relation", "x": 1}
    assert "type.googleapis.com/some.Relation" in problem(plan({kind: {"detail": detail}}, ["a"])).message


def test_an_enhancement_is_refused_wherever_it_is() -> None:
    extension = {"advancedExtension": {"enhancement": {"@type": "x.com/Faster"}}}
    relation = filter_(table(I64, common=extension), TRUE, **extension)
    reported = problems(plan(relation, ["a"], advancedExtensions=extension["advancedExtension"]))
    assert [p.place for p in reported] == [
        "advanced_extensions.enhancement",
        "relations[0].root.input.filter.input.read.common.advanced_extension.enhancement",
        "relations[0].root.input.filter.advanced_extension.enhancement",
    ]


def test_an_optimization_is_ignored() -> None:
    extension = {"advancedExtension": {"optimization": [{"@type": "x.com/Hint"}]}}
    assert decode(plan(table(I64, **extension), ["a"])).plan.names == ("a",)


def test_functions_that_do_not_exist_are_reported_where_they_are_used() -> None:
    reported = problem(plan(project(table(I64, TEXT), call("add", field(0), field(1))), ["a", "b", "c"]))
    assert reported.place == "relations[0].root.input.project.expressions[0].scalar_function"
    assert reported.reason == "NO_MATCHING_FUNCTION"


def test_two_functions_cannot_have_one_anchor() -> None:
    declared = [{"extensionFunction": {"functionAnchor": 1, "name": name}} for name in ("add", "subtract")]
    reported = problem({**plan(table(I64), ["a"]), "extensions": declared})
    assert (reported.place, reported.reason) == ("extensions[1].extension_function", "DUPLICATE_ANCHOR")


def test_columns_of_a_read_need_distinct_names() -> None:
    base = {"names": ["a", "a"], "struct": {"types": [I64, I32]}}
    reported = problem(plan({"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}, ["a", "b"]))
    assert reported.reason == "DUPLICATE_NAME"


def test_columns_of_a_read_need_names_that_arrow_can_carry() -> None:
    base = {"names": ["a\x00b"], "struct": {"types": [I64]}}
    reported = problem(plan({"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}, ["a"]))
    assert (reported.place.rpartition(".")[2], reported.reason) == ("names", "BAD_NAME")


def test_a_long_place_keeps_its_ends_and_counts_what_is_left_out() -> None:
    path = PlanPath("relations[0]")
    for _ in range(5_000):
        path = path / "filter" / "input"
    text = str(path / "condition")
    assert len(text) < 3_000
    assert text.startswith("relations[0].filter.input.filter")
    assert text.endswith(".filter.input.condition")
    kept = text.count("filter") + text.count("input")
    assert f"({10_000 - kept} steps)" in text
