from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tidegate.operators.duckdb.duckdb_calls import Engine, PublicEngine
from tidegate.operators.duckdb.duckdb_private import PrivateEngine
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings


@pytest.fixture(params=[PrivateEngine, PublicEngine], ids=["private", "public"])
def engine(request: pytest.FixtureRequest) -> Engine:
    made: Engine = request.param()
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that instances may read."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def pool(tmp_path: Path, engine: Engine) -> Iterator[InstancePool]:
    made = InstancePool(tmp_path / "spill", engine=engine)
    yield made
    made.close()


@pytest.fixture
def instance(pool: InstancePool, root: Path) -> Iterator[Instance]:
    made = pool.take(InstanceSettings(memory_limit=1 << 30, roots=(str(root),)))
    yield made
    made.close()
