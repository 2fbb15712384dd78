"""Fixtures of the tests of tasks on Spark: the files of TPC-H, and a service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tidegate
from tests.conformance import tpch


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return tpch.generate(tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as local_client:
        yield local_client
