"""Every official function case as a whole plan: submitted in bytes, answered in Arrow.

The cases that do not pass are those of `test_official_function_cases`, for the same reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tidegate.proto.errors import ExecutionError

from ..searching import every
from .official_cases import ERROR, ERRORS, UNDEFINED, Unreadable, error_failure, error_kind, files, read
from .official_plans import failure, plan_of
from .test_official_function_cases import PASSING, TOTAL, expected_to_fail, surprises

PAGE = Path(__file__).parents[2] / "docs" / "official-cases.md"


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as client:
        yield client


@pytest.mark.parametrize("file", every(3, files()))
def test_all_plans_of_a_file_give_their_answers(file: str, client: tidegate.Client) -> None:
    assert surprises(file, lambda case: failure(case, client)) == ""


def test_an_independent_reader_of_the_extensions_declares_most_results() -> None:
    plans = [plan_of(case) for file in files() for _, _, case in read(file) if not isinstance(case, Unreadable)]
    assert sum(plan.declared for plan in plans) >= 1_200


def test_every_kind_of_error_is_told_from_the_others() -> None:
    cases = [case for file in files() for _, _, case in read(file) if getattr(case, "expected", None) == ERROR]
    messages = {
        "overflow": "Overflow in addition of INT8 (120 + 10)",
        "division by zero": "Division by zero in expression (5 // 0)",
        "domain": "acosh outside its domain",
        "logarithm of zero": "ln of zero",
        "complex result": "power with a complex result",
    }
    assert {error_kind(case) for case in cases} == set(ERRORS) == set(messages)
    for case in cases:
        right = {kind for kind, text in messages.items() if error_failure(case, ExecutionError(text)) is None}
        assert right == {error_kind(case)}


def test_the_page_has_the_numbers_and_reasons_of_the_tests() -> None:
    text = PAGE.read_text(encoding="utf-8")
    cases = [case for file in files() for _, _, case in read(file)]
    kinds = Counter(case.expected for case in cases if getattr(case, "expected", None) in (ERROR, UNDEFINED))
    errors = Counter(error_kind(case) for case in cases if getattr(case, "expected", None) == ERROR)
    shown = {
        name: int(count.replace(",", ""))
        for name, count in re.findall(r"^\| (\w[^|]*?) \| ([\d,]+) \|", text, re.MULTILINE)
    }
    reasons = Counter(reason for file in files() for _, line, _ in read(file) if (reason := expected_to_fail(line)))
    assert shown == {
        "all": TOTAL,
        "right": PASSING - kinds[UNDEFINED],
        "of these, an error": kinds[ERROR],
        **errors,
        "the case leaves the answer open": kinds[UNDEFINED],
        "not right": TOTAL - PASSING,
        **reasons,
    }
