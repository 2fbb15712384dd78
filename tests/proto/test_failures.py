"""Errors on their way over the wire."""

from __future__ import annotations

from tidegate.proto.encoding.error_status import error, failure
from tidegate.proto.errors import InvalidRequest, PlanError, Problem


def test_a_sentence_that_is_no_text_is_told_as_nearly_as_it_can_be() -> None:
    said = failure(InvalidRequest("no file a\udcff.parquet", reason="FILE_NOT_FOUND"))
    received = error(said.status, said.sentence, said.metadata)
    assert (type(received), received.reason, received.message) == (
        InvalidRequest,
        "FILE_NOT_FOUND",
        r"no file a\udcff.parquet",
    )


def test_neither_is_a_problem_of_a_plan_lost() -> None:
    said = failure(PlanError(Problem(place="relations", reason="BAD_NAME", message="called \ud800")))
    received = error(said.status, said.sentence, said.metadata)
    assert isinstance(received, PlanError)
    assert received.problems[0].message == r"called \ud800"
