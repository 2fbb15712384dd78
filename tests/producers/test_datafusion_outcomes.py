"""Class of bug: a plan of DataFusion that gives another answer than DataFusion gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import datafusion
import pytest

from .datafusion_functions import Call, calls
from .outcomes import Outcome, Result
from .page import outcomes, pages

Outcomes = tuple[Mapping[Call, Result], Mapping[str, Mapping[str, Result]]]


@pytest.fixture(scope="module")
def results() -> Outcomes:
    return outcomes()


def test_no_function_gives_another_answer_than_datafusion(results: Outcomes) -> None:
    functions, _ = results
    assert not {call.sql: result.note for call, result in functions.items() if result.outcome is Outcome.WRONG}


def test_no_query_gives_another_answer_than_datafusion(results: Outcomes) -> None:
    _, features = results
    queries = {sql: result for chapter in features.values() for sql, result in chapter.items()}
    assert not {sql: result.note for sql, result in queries.items() if result.outcome is Outcome.WRONG}


def test_the_list_has_every_function_that_datafusion_lists() -> None:
    context = datafusion.SessionContext(datafusion.SessionConfig().with_information_schema(True))
    listed = context.sql("SELECT DISTINCT routine_name FROM information_schema.routines").to_arrow_table()
    assert {call.function for call in calls()} == set(listed.column(0).to_pylist())


def test_a_part_that_datafusion_loses_is_never_taken_for_a_right_answer(results: Outcomes) -> None:
    """The rows of such a query differ with and without the part, so that its answer is not right by accident."""
    _, features = results
    queries = {sql: result.outcome for chapter in features.values() for sql, result in chapter.items()}
    assert {outcome for sql, outcome in queries.items() if "IGNORE NULLS" in sql} == {Outcome.LOST}


def test_most_functions_run(results: Outcomes) -> None:
    functions, _ = results
    assert Counter(result.outcome for result in functions.values())[Outcome.RIGHT] >= 290


def test_the_pages_in_the_docs_are_what_the_plans_give(project: Path, results: Outcomes) -> None:
    for path, text in pages(*results).items():
        assert (project / path).read_text(encoding="utf-8") == text, "stale: run make producers"
