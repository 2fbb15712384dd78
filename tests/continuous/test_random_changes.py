"""Random plans, random changes, random epochs: after each of them the sum of all changes is DuckDB's answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidegate

from ..conformance.test_random_plans import NAMES, QUERIES, SCHEMA, VALUES, planned
from ..duckdb_oracle import oracle
from ..searching import tries
from .histories import Changed, Epochs, Integral, Row, changes, multiset, total

SCHEMAS: Final = dict.fromkeys(NAMES, SCHEMA)


@st.composite
def histories(draw: st.DrawFn) -> Epochs:
    """Up to four epochs; what is deleted is there by the epoch's end, in whatever order changes come."""
    present: dict[str, Counter[Row]] = {name: Counter() for name in NAMES}
    return [
        {name: draw(one_epoch(present[name])) for name in NAMES}
        for _ in range(draw(st.integers(min_value=1, max_value=4)))
    ]


@st.composite
def one_epoch(draw: st.DrawFn, present: Counter[Row]) -> Changed:
    changed: list[tuple[Row, int]] = [(row, draw(st.sampled_from([1, 1, 1, 2]))) for row in draw(ROWS)]
    for row, weight in changed:
        present[row] += weight
    there = sorted(present.elements(), key=repr)
    for row in draw(st.lists(st.sampled_from(there), max_size=8)) if there else ():
        if present[row]:
            present[row] -= 1
            changed.append((row, -1))
    return draw(st.permutations(changed))


ROWS: Final = st.lists(VALUES, max_size=10)


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@settings(max_examples=tries(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(sql=QUERIES, history=histories(), channels=st.integers(min_value=1, max_value=3), cut=st.integers(1, 5))
def test_the_sum_of_all_changes_is_the_answer_over_the_sum_of_the_input(
    client: tidegate.Client, sql: str, history: Epochs, channels: int, cut: int
) -> None:
    with client.create_task(planned(sql), mode="continuous", channels=channels) as task:
        integral = Integral()
        for number, epoch in enumerate(history, 1):
            splits = {
                name: [changes(epoch[name][at : at + cut], SCHEMA) for at in range(0, len(epoch[name]), cut)]
                for name in task.sources
            }
            integral.add(task.run_epoch(splits).table())
            assert integral.rows == answer(sql, history[:number])


def answer(sql: str, history: Epochs) -> Counter[Row]:
    with oracle({name: total(history, name, schema) for name, schema in SCHEMAS.items()}) as connection:
        return multiset(connection.sql(sql).fetchall())
