"""The DuckDB instances of continuous tasks: a network has one only if it has statements."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.operators.duckdb.instances import InstancePool, InstanceSettings

from .histories import planned

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
SUMS = "SELECT k, sum(v) AS total FROM t GROUP BY k"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[InstanceSettings]:
    """The settings of the instances that tasks have taken, beside those of trials."""
    taken: list[InstanceSettings] = []
    take = InstancePool.take

    def counted(pool: InstancePool, settings: InstanceSettings):  # type: ignore[no-untyped-def]
        taken.append(settings)
        return take(pool, settings)

    monkeypatch.setattr(InstancePool, "take", counted)
    return taken


def test_a_task_without_statements_takes_none_when_it_is_made_runs_and_comes_back(
    tmp_path: Path, taken: list[InstanceSettings]
) -> None:
    plan = planned(SUMS, {"t": SCHEMA})
    with tidegate.local(data=tmp_path / "data") as client:
        client.create_task(plan, mode="continuous").delete()  # its statements are tried once
        taken.clear()
        task = client.create_task(plan, mode="continuous", checkpoint_epochs=1)
        task.run_epoch({"t": pa.table({"k": [1, 1], "v": [2, 3]})}).table()
        task.acknowledge()
        identity = task.id
    with tidegate.local(data=tmp_path / "data") as client:
        task = client.task(identity)
        rows = task.run_epoch({"t": pa.table({"k": [1], "v": [4]})}).table().to_pylist()
        assert rows == [{"k": 1, "total": 5, "_weight": -1}, {"k": 1, "total": 9, "_weight": 1}]
    assert taken == []
