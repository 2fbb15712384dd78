"""Every plan, through the client over Parquet files, against two engines' answers to its SQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest

import tidegate

from ..on_channels import on_channels
from ..searching import one_of_each
from . import tpch
from .ibis import LOST, as_written

ALL = [(producer, query) for producer in tpch.PRODUCERS for query in tpch.plans(producer)]


@pytest.fixture(scope="module")
def client(tpch_files: dict[str, Path]) -> Iterator[tidegate.Client]:
    roots = [next(iter(tpch_files.values())).parent]
    with tidegate.local(roots=roots) as client:
        yield client


def sql_of(producer: str, query: str) -> str:
    """What the plan says, which is not what was meant where the producer lost something."""
    sql = tpch.sql_of(producer, query)
    return as_written(query, sql) if producer == "ibis" and query in LOST else sql


HOW: Final[dict[str, dict[str, Any]]] = {
    "strict": {"determinism": "strict"},
    "relaxed": {"determinism": "relaxed"},
    "three channels": {"determinism": "strict", **on_channels(3)},
}


@pytest.mark.parametrize(("producer", "query", "how"), one_of_each((*plan, how) for plan, how in product(ALL, HOW)))
def test_a_plan_gives_its_answer(
    producer: str,
    query: str,
    how: str,
    client: tidegate.Client,
    tpch_files: dict[str, Path],
    oracles: tpch.Oracles,
) -> None:
    plan = tpch.plan_bytes(producer, query)
    with client.create_task(plan, **HOW[how]) as task:
        splits = {name: str(tpch_files[name.lower()]) for name in task.sources}
        result = task.run_epoch(splits).table()
    assert result.schema.names == tpch.root_names(producer, query)
    sql = sql_of(producer, query)
    answers = oracles.answers(sql)
    ratios = tpch.quotients(answers)
    assert {name: tpch.differences(result, answer, sql, ratios) for name, answer in answers.items()} == {
        "DuckDB": [],
        "DataFusion": [],
    }
