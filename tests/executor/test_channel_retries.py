"""A channel whose engine broke is made anew, alone: the rows are those of an undisturbed run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from tidegate.operators.duckdb.fragment import Fragment
from tidegate.proto.errors import TaskFailed

from .channel_plans import inline, running, summed
from .test_channels import PLANS, T


class Breaking:
    """Has the engine of one fragment break: the one that gives the batch number `at` of all batches of an epoch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at: int | None = None
        self.batches = 0
        rows = Fragment._rows

        def broken(fragment: Fragment) -> Iterator[pa.RecordBatch]:
            for batch in rows(fragment):
                self.batches += 1
                if self.batches == self.at:
                    raise duckdb.FatalException("FATAL Error: the database has been invalidated")
                yield batch

        monkeypatch.setattr(Fragment, "_rows", broken)


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    return Breaking(monkeypatch)


@pytest.mark.parametrize("name", PLANS)
def test_whichever_engine_breaks_the_rows_are_the_same(name: str, tmp_path: Path, breaking: Breaking) -> None:
    of, rows = PLANS[name]
    splits = {source: inline(*columns) for source, columns in rows.items()}
    with running(of(2), tmp_path, retries=1) as task:
        undisturbed = task.digest(**splits)
        batches, breaking.batches = breaking.batches, 0
        for breaking.at in range(1, batches + 1):
            breaking.batches = 0
            assert task.digest(**splits) == undisturbed, breaking.at


def test_only_the_channel_with_the_broken_engine_runs_twice(
    tmp_path: Path, breaking: Breaking, caplog: pytest.LogCaptureFixture
) -> None:
    breaking.at = 2
    with running(summed(3), tmp_path, retries=1) as task, caplog.at_level(logging.WARNING):
        task.run(t=inline(*T))
        runs = {plan_path: operator.runs for plan_path, operator in task.operators().items()}
    assert (runs["scan t"], runs["partial"], runs["final"]) == (3 + 1, 3 + 1, 3)
    assert "is made anew" in caplog.text


def test_without_retries_a_broken_engine_ends_the_task(tmp_path: Path, breaking: Breaking) -> None:
    breaking.at = 2
    with running(summed(3), tmp_path) as task, pytest.raises(TaskFailed, match="has been invalidated"):
        task.run(t=inline(*T))


def test_a_broken_engine_is_replaced_in_the_next_epoch(tmp_path: Path, breaking: Breaking) -> None:
    breaking.at = 2
    with running(summed(3), tmp_path, retries=1) as task:
        first = task.digest(t=inline(*T))
        for _ in range(3):
            assert task.digest(t=inline(*T)) == first
