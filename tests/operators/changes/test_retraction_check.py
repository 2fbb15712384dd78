"""Deletions of rows that are not there."""

import pyarrow as pa
import pytest

from tidegate.operators.changes.retraction_check import RetractionCheck
from tidegate.proto.errors import ExecutionError

from .timed import change, run_epoch

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def test_rows_are_passed_on_as_they_come() -> None:
    known = RetractionCheck(SCHEMA, "edges")
    assert run_epoch(known, [(0, change(SCHEMA, [((1, "x"), 2, ())], 0))]) == [((1, "x"), 2, ())]


def test_a_total_may_be_below_zero_inside_an_epoch() -> None:
    known = RetractionCheck(SCHEMA, "edges")
    received = [(0, change(SCHEMA, [((1, None), weight, ())], 0)) for weight in (-1, 1)]
    assert run_epoch(known, received) == [((1, None), -1, ()), ((1, None), 1, ())]


def test_deleting_a_row_that_is_not_there_is_an_error_that_names_it() -> None:
    known = RetractionCheck(SCHEMA, "edges")
    run_epoch(known, [(0, change(SCHEMA, [((1, "x"), 1, ())], 0))])
    with pytest.raises(ExecutionError, match=r"source 'edges': the row \{'k': 1, 'v': 'x'\} .* it has -1 copies"):
        run_epoch(known, [(0, change(SCHEMA, [((1, "x"), -2, ())], 0))])
