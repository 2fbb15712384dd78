"""Loops in continuous tasks: after each epoch the sum of all changes is the answer that the loop's meaning gives.

It is also what per-epoch tasks say of all rows, whichever way they run the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

import tidegate
from tidegate.executor.service.manager import TaskManager
from tidegate.executor.service.plan_engine import PlanEngine

from ..loops.queries import QUERIES, SCHEMAS, Query, history
from ..searching import SEARCHES
from ..server.running import served
from .histories import Changed, Integral, Row, changes, multiset, rows_of, table


def splits(task: tidegate.Task, changed: Mapping[str, Changed]) -> Mapping[str, tidegate.Changes]:
    return {source: changes(changed[source], SCHEMAS[source]) for source in task.sources}


def check(
    client: tidegate.Client, query: Query, epochs: Iterator[Mapping[str, Changed]], channels: Sequence[int]
) -> None:
    """Continuously on each of these numbers of channels, and epoch by epoch."""
    there: dict[str, Counter[Row]] = {source: Counter() for source in SCHEMAS}
    plan = query.plan()
    with ExitStack() as stack:
        tasks = [stack.enter_context(client.create_task(plan, mode="continuous", channels=count)) for count in channels]
        whole = [stack.enter_context(client.create_task(plan, loops=loops)) for loops in ("auto", "general")]
        integrals = [Integral() for _ in channels]
        for changed in epochs:
            for source, rows in changed.items():
                for row, weight in rows:
                    there[source][row] += weight
            all_rows = {source: list(rows.elements()) for source, rows in there.items()}
            right = query.answer(all_rows)
            for task, integral in zip(tasks, integrals, strict=True):
                integral.add(task.run_epoch(splits(task, changed)).table())
                assert integral.rows == right, f"on {task.info().options.channels} channels"
            for task in whole:
                tables = {source: table(all_rows[source], SCHEMAS[source]) for source in task.sources}
                assert multiset(rows_of(task.run_epoch(tables).table())) == right, task.info().options.loops


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@pytest.mark.parametrize("name", QUERIES)
def test_the_sum_of_the_changes_is_what_the_loop_means(client: tidegate.Client, name: str) -> None:
    check(client, QUERIES[name], history(1000 + len(name)), (1, 2, 3) if SEARCHES else (1 + len(name) % 3,))


def test_over_the_wire_loops_are_the_same(tmp_path: Path) -> None:
    manager = TaskManager(PlanEngine((), tmp_path), folder=tmp_path, threads=2)
    try:
        with served(manager) as address, tidegate.connect(address) as client:
            check(client, QUERIES["a loop in a loop"], history(5), (2,))
    finally:
        manager.close()
