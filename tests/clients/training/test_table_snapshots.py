"""A loader over the files of a snapshot reads the rows of this snapshot, and its state fits no other one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import substrait.dataframe as sub

import tidegate
from tidegate.client import Client
from tidegate.training import Loader, Shuffle


def rows(first: int, end: int) -> pa.Table:
    return pa.table({"n": range(first, end), "even": [n % 2 == 0 for n in range(first, end)]})


def loader(client: Client, files: list[str]) -> Loader:
    plan = sub.read_named_table("samples", {"n": sub.i64, "even": sub.boolean}).to_plan()
    return Loader(client, plan, {"samples": files}, batch_size=4, shuffle=Shuffle(1))


def check_snapshots(client: Client, before: list[str], after: list[str]) -> None:
    """`before` has the rows below 10, `after` those below 20."""
    for files, count in ((before, 10), (after, 20)):
        batches = list(loader(client, files))
        read = [(n, even) for batch in batches for n, even in zip(batch["n"], batch["even"], strict=True)]
        assert sorted(read) == [(n, n % 2 == 0) for n in range(count)]
    state = loader(client, before).state_dict()
    loader(client, before).load_state_dict(state)
    with pytest.raises(tidegate.Refused, match="data") as refused:
        loader(client, after).load_state_dict(state)
    assert refused.value.reason == "STATE_MISMATCH"


def test_versions_of_a_delta_table(client: Client, tmp_path: Path) -> None:
    deltalake: Any = pytest.importorskip("deltalake")
    deltalake.write_deltalake(tmp_path, rows(0, 10), partition_by=["even"])
    deltalake.write_deltalake(tmp_path, rows(10, 20), mode="append")
    versions = [sorted(deltalake.DeltaTable(tmp_path, version=version).file_uris()) for version in (0, 1)]
    check_snapshots(client, *versions)


def test_snapshots_of_an_iceberg_table(client: Client, tmp_path: Path) -> None:
    sql: Any = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = sql.SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.samples", schema=rows(0, 1).schema)
    snapshots = []
    for first in (0, 10):
        table.append(rows(first, first + 10))
        snapshots.append(table.current_snapshot().snapshot_id)
    tasks = [list(table.scan(snapshot_id=snapshot).plan_files()) for snapshot in snapshots]
    assert not any(task.delete_files for of_snapshot in tasks for task in of_snapshot)
    check_snapshots(client, *(sorted(task.file.file_path for task in of_snapshot) for of_snapshot in tasks))
