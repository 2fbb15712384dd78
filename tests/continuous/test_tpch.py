"""TPC-H, four producers' plans: rows come in three epochs, some of them twice, some to go again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidegate

from ..conformance import tpch
from ..searching import one_of_each
from .histories import WEIGHT, Integral, multiset, rows_of

ALL: Final = sorted((query, producer) for producer in tpch.PRODUCERS for query in tpch.plans(producer))
Tables: TypeAlias = dict[str, pa.Table]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    files = tpch.generate(tmp_path_factory.mktemp("tiny"), scale="0.001")
    return {name: pq.read_table(path) for name, path in files.items()}


@pytest.fixture(scope="module")
def epochs(tables: Tables) -> list[Tables]:
    return [{name: _epochs(table)[number] for name, table in tables.items()} for number in range(3)]


def _epochs(table: pa.Table) -> tuple[pa.Table, ...]:
    """All rows in the end: the last third comes, goes and comes again, the first rows are there twice for a while."""
    third = table.num_rows // 3
    first, second, last = table.slice(0, third), table.slice(third, third), table.slice(2 * third)
    twice = table.slice(0, table.num_rows // 5 + 1)
    return (
        pa.concat_tables([_weighed(first, 1), _weighed(last, 1)]),
        pa.concat_tables([_weighed(last, -1), _weighed(second, 1), _weighed(twice, 1)]),
        pa.concat_tables([_weighed(twice, -1), _weighed(last, 1)]),
    )


def _weighed(table: pa.Table, weight: int) -> pa.Table:
    return table.append_column(WEIGHT, pa.array([weight] * table.num_rows, pa.int64()))


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@pytest.mark.parametrize(("query", "producer"), one_of_each(ALL))
def test_the_sum_of_three_epochs_is_the_answer(
    query: str, producer: str, client: tidegate.Client, tables: Tables, epochs: list[Tables]
) -> None:
    plan = tpch.plan_bytes(producer, query)
    with client.create_task(plan) as task:
        right = multiset(rows_of(task.run_epoch({name: tables[name.lower()] for name in task.sources}).table()))
    with client.create_task(plan, mode="continuous", channels=1 + len(query + producer) % 2) as task:
        integral = Integral()
        for epoch in epochs:
            splits = {name: tidegate.Changes(epoch[name.lower()], WEIGHT) for name in task.sources}
            integral.add(task.run_epoch(splits).table())
    assert integral.rows == right
