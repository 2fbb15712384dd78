"""A plan that is not of the encoding it is given as: one line that says what was perhaps meant."""

from __future__ import annotations

import pytest

from tidegate.planner.decode import decode_plan
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (PlanBytes(binary=b' {"relations": []}'), "looks like JSON: a plan in JSON is text, a str or a file"),
        (
            PlanBytes(json="plan.bin"),
            "'plan.bin'; a plan in JSON is an object, from '{' on: give the name of a file as",
        ),
        (PlanBytes(json='{"relatons": []}'), 'has no field named "relatons"'),
    ],
)
def test_a_plan_of_another_encoding_is_told_in_one_line(plan: PlanBytes, sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        decode_plan(plan)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.reason == "MALFORMED"
