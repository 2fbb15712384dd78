"""The digest of what a plan means: equal for what is the same plan, different for any difference that matters."""

from __future__ import annotations

import pytest

from tidegate.planner.decode import decode_plan
from tidegate.planner.meaning import meaning
from tidegate.proto.values import PlanBytes

from ..clients import plans
from ..executor.plans import doubled, filtered, plan, read, union


def of(relation: object, *names: str) -> str:
    return meaning(decode_plan(plan(relation, *names)).plan)


def test_both_encodings_of_a_plan_mean_the_same() -> None:
    binary, json = PlanBytes(binary=plans.totals()), PlanBytes(json=plans.totals_json())
    assert meaning(decode_plan(binary).plan) == meaning(decode_plan(json).plan)


def test_the_producers_numbers_of_functions_do_not_count() -> None:
    one = plan(filtered(read("a", "x"), 0, above=7), "x")
    text = (
        str(one.json)
        .replace('"functionAnchor": 1,', '"functionAnchor": 71,')
        .replace('"functionReference": 1,', '"functionReference": 71,')
    )
    assert text != one.json
    assert meaning(decode_plan(one).plan) == meaning(decode_plan(PlanBytes(json=text)).plan)


@pytest.mark.parametrize(
    ("relation", "names"),
    [
        (filtered(read("a", "x"), 0, above=8), ["x"]),
        (filtered(read("b", "x"), 0, above=7), ["x"]),
        (filtered(read("a", "y"), 0, above=7), ["x"]),
        (filtered(read("a", "x"), 0, above=7), ["y"]),
        (doubled(filtered(read("a", "x"), 0, above=7), 1), ["x"]),
        (union(filtered(read("a", "x"), 0, above=7), read("a", "x")), ["x"]),
    ],
    ids=["literal", "source", "column", "name", "expression", "relation"],
)
def test_what_differs_means_something_else(relation: object, names: list[str]) -> None:
    assert of(relation, *names) != of(filtered(read("a", "x"), 0, above=7), "x")


def test_a_plan_of_thousands_of_levels_has_a_digest() -> None:
    deep = [meaning(decode_plan(PlanBytes(binary=plans.deep(1500, count))).plan) for count in (5, 5, 6)]
    assert deep[0] == deep[1] != deep[2]
