"""Plans that write, asked for in this process and over gRPC: the same options, statistics and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv

from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.errors import InvalidRequest, PlanError

from . import plans

OpenClient = Callable[..., Client]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    (tmp_path / "tables").mkdir()
    return tmp_path / "tables"


@pytest.fixture
def client(open_client: OpenClient, tmp_path: Path, tables: Path) -> Client:
    return open_client(PlanEngine([], tmp_path, write_root=str(tables)))


def rows(*values: int) -> pa.Table:
    return pa.table({"k": [1] * len(values), "v": values})


def test_an_epoch_says_what_it_has_written_in_the_format_that_was_asked_for(client: Client, tables: Path) -> None:
    with client.create_task(plans.totals_written("totals"), write_format="csv") as task:
        assert task.options.write_format == "csv"
        epoch = task.run_epoch({"rows": rows(2, 3)})
        assert epoch.table().num_rows == 0
        assert (epoch.statistics.rows_written, epoch.statistics.files_written) == (1, 1)
    (file,) = (tables / "totals").iterdir()
    assert epoch.statistics.bytes_written == file.stat().st_size
    assert csv.read_csv(file).to_pylist() == [{"k": 1, "total": 5}]


def test_tables_outlive_the_task_that_wrote_them(client: Client, tables: Path) -> None:
    for mode in ("error", "append", "append"):
        client.query(plans.totals_written("totals", mode=mode), {"rows": rows(1)})
    assert list(client.tasks()) == []
    assert len(list((tables / "totals").iterdir())) == 3


def test_a_service_that_writes_no_tables_refuses_with_the_place_in_the_plan(
    open_client: OpenClient, tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match="--write-root") as error:
        open_client(PlanEngine([], tmp_path)).create_task(plans.totals_written("totals"))
    assert [(problem.reason, problem.place) for problem in error.value.problems] == [
        ("WRITES_NOT_ALLOWED", "relations[0].root.input.write")
    ]


def test_a_table_outside_of_the_folder_for_tables_is_refused(client: Client) -> None:
    with pytest.raises(InvalidRequest) as error:
        client.create_task(plans.totals_written("..", "totals"))
    assert error.value.reason == "BAD_TABLE_NAME"
