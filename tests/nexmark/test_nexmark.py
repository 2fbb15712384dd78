"""Nexmark, continuous: the stream comes in epochs. The sum of all changes is DuckDB's answer over the whole stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest

import tidegate

from ..continuous.histories import Integral, Row, multiset, planned, rows_of
from ..searching import SEARCHES
from .generator import SCHEMAS, generated, tables
from .queries import DELAY, QUERIES, Query

EVENTS: Final = 40_000 if SEARCHES else 2_000
SIDE: Final = pa.table({"number": range(100), "text": [f"side {number}" for number in range(100)]})
OF_WINDOWS: Final = [number for number, query in QUERIES.items() if query.plan is not None]
OF_DAYS: Final = {14, 15, 16, 17}
"""The queries of days and hours run over a slower stream, which lasts for days."""


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


def epochs_of(number: int) -> list[dict[str, pa.Table]]:
    """The stream, cut anyhow. Rows may come 3 seconds late."""
    random = Random(number)
    late = int(DELAY.total_seconds() * 1_000)
    events = generated(EVENTS, seed=number + 1, late=late, step=60_000 if number in OF_DAYS else 100)
    cuts = sorted(random.randrange(EVENTS) for _ in range(6))
    return [tables(events[start:end]) for start, end in zip([0, *cuts], [*cuts, EVENTS], strict=True)]


def answer(query: Query, epochs: list[dict[str, pa.Table]]) -> Counter[Row]:
    with duckdb.connect() as connection:
        for name in SCHEMAS:
            connection.register(name, pa.concat_tables([epoch[name] for epoch in epochs]))
        connection.register("side", SIDE)
        return multiset(rows_of(connection.sql(query.sql).to_arrow_table()))


def fed(task: tidegate.Task, epoch: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    return {name: epoch[name] for name, source in task.sources.items() if not source.static}


@pytest.mark.parametrize("number", QUERIES)
def test_the_changes_add_up_to_the_answer_over_the_whole_stream(client: tidegate.Client, number: int) -> None:
    query, epochs = QUERIES[number], epochs_of(number)
    plan: Any = planned(query.sql, SCHEMAS | {"side": SIDE.schema}) if query.plan is None else query.plan(False)
    tables = {"side": SIDE} if "side" in query.sql else None
    integral = Integral()
    with client.create_task(plan, mode="continuous", channels=1 + number % 2, tables=tables) as task:
        for epoch in epochs:
            integral.add(task.run_epoch(fed(task, epoch)).table())
    expected = answer(query, epochs)
    assert expected
    assert integral.rows == expected


@pytest.mark.parametrize("number", OF_WINDOWS)
def test_final_windows_are_the_answer_over_the_whole_stream(client: tidegate.Client, number: int) -> None:
    query, epochs = QUERIES[number], epochs_of(number)
    assert query.plan is not None
    integral = Integral()
    with client.create_task(query.plan(True), mode="continuous", channels=2 - number % 2) as task:
        for epoch in epochs[:-1]:
            integral.add(task.run_epoch(fed(task, epoch)).table())
        assert integral.rows
        for name, table in fed(task, epochs[-1]).items():
            task.add_split(name, table)
        task.no_more_splits()
        for last in task.epochs():
            integral.add(last.table())
    assert integral.rows == answer(query, epochs)


@pytest.mark.parametrize("number", OF_WINDOWS)
def test_a_per_epoch_task_gives_the_answer_of_one_epoch(client: tidegate.Client, number: int) -> None:
    query, epochs = QUERIES[number], epochs_of(number)
    assert query.plan is not None
    with client.create_task(query.plan(True), channels=2 - number % 2) as task:
        splits = {name: [epoch[name] for epoch in epochs] for name in fed(task, epochs[0])}
        assert multiset(rows_of(task.run_epoch(splits).table())) == answer(query, epochs)
