from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tidegate.operators.duckdb.duckdb_calls import Engine, PublicEngine
from tidegate.operators.duckdb.duckdb_private import PrivateEngine
from tidegate.operators.duckdb.instances import Instance, InstancePool, InstanceSettings
from tidegate.operators.sources.formats import orc_readers


@pytest.fixture(params=[PrivateEngine, PublicEngine], ids=["private", "public"])
def engine(request: pytest.FixtureRequest) -> Engine:
    chosen: Engine = request.param()
    return chosen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder that instances may read."""
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


@pytest.fixture
def pool(tmp_path: Path, engine: Engine) -> Iterator[InstancePool]:
    pool_ = InstancePool(tmp_path / "spill", engine=engine)
    yield pool_
    pool_.close()


@pytest.fixture(scope="session")
def used_pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[type[Engine], InstancePool]]:
    pools = {
        kind: InstancePool(tmp_path_factory.mktemp("spill"), engine=kind()) for kind in (PrivateEngine, PublicEngine)
    }
    yield pools
    for pool_ in pools.values():
        pool_.close()


@pytest.fixture
def instance(
    engine: Engine, used_pools: Mapping[type[Engine], InstancePool], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Instance]:
    """One that earlier tests may have used: to open one takes 22 ms of a core. It may read the folders of all tests."""
    pool_ = used_pools[type(engine)]
    folder = str(tmp_path_factory.getbasetemp())
    instance_ = pool_.take(InstanceSettings(memory_limit=1 << 30, roots=(folder,)))
    yield instance_
    pool_.give_back(instance_)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that a test starts, of which there are none before."""
    processes: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(*command: object, **options: object) -> subprocess.Popen[bytes]:
        processes.append(real(*command, **options))  # type: ignore[call-overload]
        return processes[-1]

    orc_readers.processes.close()
    monkeypatch.setattr(orc_readers.subprocess, "Popen", start)
    yield processes
    orc_readers.processes.close()
    assert all(process.poll() is not None for process in processes)
