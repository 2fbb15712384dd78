"""A DuckDB instance that all cases of a module run on: they differ in their statements alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.operators.duckdb.duckdb_private import PrivateEngine
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    pool = InstancePool(tmp_path_factory.mktemp("spill"), engine=PrivateEngine())
    instance = pool.take(InstanceSettings(memory_limit=1 << 30, roots=()))
    yield instance
    instance.close()
    pool.close()
