"""The digests that are pinned for this process, come again on Spark: the same plans, the same rows, the same order."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.conformance import tpch
from tests.conformance.strict_digests import Query
from tests.conformance.test_determinism import pinned

from .elsewhere import CHANNELS, on_spark, queries

CHOSEN = (
    "unnest",
    "look-ups in files",
    "look-ups in files, four ahead",
    "look-ups in a table",
    "merge join",
    "streaming aggregate of a merge join",
    "a million groups",
    "row-wise pieces",
    "a sort that spills",
    "many_matches in order, files",
    "TPC-H q09",
    "TPC-H q18 in order",
)
FEW = ("unnest", "a million groups", "TPC-H q09")


@pytest.fixture(scope="module")
def tpch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tpch")
    tpch.generate(folder)
    return folder


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory, tpch_folder: Path) -> Mapping[str, Query]:
    return {each.name: each for each in queries(tmp_path_factory.mktemp("rows"), tpch_folder)}


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as made:
        yield made


@pytest.mark.parametrize("name", CHOSEN)
def test_a_pinned_digest_comes_again(
    name: str, known: Mapping[str, Query], client: tidegate.Client, spark: SparkSession
) -> None:
    channels = CHANNELS[CHOSEN.index(name) % len(CHANNELS)]
    assert on_spark(known[name], spark).digest(client, channels) == pinned()[str(channels)][name]


def test_a_loop_s_pinned_digest_comes_again(
    known: Mapping[str, Query], client: tidegate.Client, spark: SparkSession
) -> None:
    """It runs whole inside of one Spark task."""
    for name in ("transitive closure, one statement", "components, round by round"):
        assert on_spark(known[name], spark).digest(client, 2) == pinned()["2"][name]


@pytest.mark.parametrize("master", ["local[1]", "local[4]", "local-cluster[2,1,1024]", "connect"])
def test_where_the_channels_run_does_not_show(master: str, tpch_folder: Path, tmp_path: Path, project: Path) -> None:
    """Neither on how many cores, nor in how many processes: `local-cluster` has executors of its own."""
    command = [sys.executable, "-m", f"{__package__}.elsewhere", master, str(tpch_folder), str(tmp_path), *FEW]
    run = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=280)
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert len(found) == len(FEW)
    for name, digest in found.items():
        channels, _, query = name.partition(" ")
        assert digest == pinned()[channels][query]
