"""An epoch is handed to what speaks the Arrow C stream protocol as it is: no table in between, no adapter."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client

from .conftest import PLAN

ROWS = pa.table({"x": pa.array(range(200_000), pa.int64())})


@pytest.fixture(params=[100 << 20, 100_000], ids=["in-memory", "spilled"])
def epoch(client: Client, request: pytest.FixtureRequest) -> Iterator[tidegate.Epoch]:
    with client.create_task(PLAN, output_bytes=request.param) as task:
        yield task.run_epoch({"a": ROWS})


def test_arrow_reads_it_as_a_stream(epoch: tidegate.Epoch) -> None:
    reader = pa.RecordBatchReader.from_stream(epoch)
    assert reader.schema == epoch.schema
    assert sum(batch.num_rows for batch in reader) == ROWS.num_rows


def test_duckdb_reads_it_by_the_name_of_a_variable(epoch: tidegate.Epoch) -> None:
    counted = duckdb.sql("SELECT count(*), sum(x) FROM epoch").fetchall()
    assert counted == [(200_000, sum(range(200_000)))]


def test_pandas_takes_it(epoch: tidegate.Epoch) -> None:
    pandas = pytest.importorskip("pandas")
    if not hasattr(pandas.DataFrame, "from_arrow"):
        pytest.skip("this pandas takes Arrow tables, not streams")
    assert len(pandas.DataFrame.from_arrow(epoch)) == ROWS.num_rows


def test_polars_takes_it(epoch: tidegate.Epoch) -> None:
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(epoch).height == ROWS.num_rows


def test_it_may_be_taken_again(epoch: tidegate.Epoch) -> None:
    assert pa.table(epoch).equals(pa.table(epoch))
