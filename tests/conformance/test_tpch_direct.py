"""Every plan's SQL, run by DuckDB with nothing else in between, against two engines' answers to the queries.

What this adds to the tests through the client: the planner alone, over sources read as files and as streams.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from substrait.proto import Plan

from tidegate.planner.decode import decode_plan
from tidegate.planner.physical.pipelines import Feed, SourceShape
from tidegate.planner.prepare import Prepared, prepare
from tidegate.proto.values import PlanBytes, TaskOptions

from ..planner.running import run
from ..searching import one_of_each
from . import tpch
from .ibis import LOST, as_written, outer_references, texts

ALL = [(producer, query) for producer in tpch.PRODUCERS for query in tpch.plans(producer)]
MEANT = [(producer, query) for producer, query in ALL if producer != "ibis" or query not in LOST]


@pytest.fixture(scope="module")
def tables(tpch_files: dict[str, Path]) -> dict[str, pa.Table]:
    with duckdb.connect() as connection:
        return {name: connection.read_parquet(str(path)).to_arrow_table() for name, path in tpch_files.items()}


def prepared(producer: str, query: str) -> Prepared:
    return prepare(decode_plan(PlanBytes(binary=tpch.plan_bytes(producer, query))), TaskOptions())


def answer(producer: str, query: str, tables: dict[str, pa.Table], feed: Feed) -> pa.Table:
    """The plan's own answer. Sources and columns are found without regard to case, as splits are."""
    plan = prepared(producer, query)
    data = {}
    for source in plan.sources:
        table = tables[source.name.lower()]
        data[source.name] = pa.table({column.name: table.column(column.name.lower()) for column in source.columns})
    shape = {name: SourceShape(feed=feed, size_class=len(str(table.num_rows))) for name, table in data.items()}
    return run(plan.physical(shape), data)


def wrong(result: pa.Table, sql: str, oracles: tpch.Oracles) -> dict[str, list[str]]:
    answers = oracles.answers(sql)
    ratios = tpch.quotients(answers)
    differences = {name: tpch.differences(result, answer, sql, ratios) for name, answer in answers.items()}
    return {name: difference for name, difference in differences.items() if difference}


def test_there_are_79_plans() -> None:
    assert len(ALL) == 79


@pytest.mark.parametrize(("producer", "query", "feed"), one_of_each((*plan, feed) for plan in MEANT for feed in Feed))
def test_a_plan_gives_what_its_sql_gives(
    producer: str, query: str, feed: Feed, tables: dict[str, pa.Table], oracles: tpch.Oracles
) -> None:
    result = answer(producer, query, tables, feed)
    assert result.schema.names == tpch.root_names(producer, query)
    assert not wrong(result, tpch.sql_of(producer, query), oracles)


@pytest.mark.parametrize("query", sorted(LOST))
def test_an_ibis_plan_that_lost_a_reference_gives_what_it_says(
    query: str, tables: dict[str, pa.Table], oracles: tpch.Oracles
) -> None:
    result = answer("ibis", query, tables, Feed.FILES)
    assert not wrong(result, as_written(query, tpch.sql_of("ibis", query)), oracles)


@pytest.mark.parametrize("query", sorted(LOST))
def test_an_ibis_plan_that_lost_a_reference_does_not_say_what_was_meant(query: str) -> None:
    plan = Plan.FromString(tpch.plan_bytes("ibis", query))
    assert outer_references(plan) == 0
    assert set(LOST[query].written) <= texts(plan)


@pytest.mark.parametrize("query", sorted(LOST))
def test_what_an_ibis_plan_says_is_not_what_its_sql_says(query: str, oracles: tpch.Oracles) -> None:
    """Else it would not belong in the table."""
    meant = tpch.sql_of("ibis", query)
    said = oracles.answers(as_written(query, meant))["DuckDB"]
    assert wrong(said, meant, oracles)
