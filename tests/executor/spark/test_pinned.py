"""The digests that are pinned for this process, come again on Spark: the same plans, the same rows, the same order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import tidegate
from tests.conformance.pinned_digests import pinned
from tests.conformance.strict_digests import Query

from ...searching import SEARCHES
from .elsewhere import CHANNELS, queries, query_on_spark

CHOSEN = (
    "unnest",
    "look-ups in files, four ahead",
    "merge join",
    "streaming aggregate of a merge join",
    "a million groups",
    "many_matches in order, files",
    "TPC-H q09",
)
ELSEWHERE = (*(["local[1]", "local[4]"] if SEARCHES else []), "local-cluster[2,1,1024]")
THERE = (*(["a million groups"] if SEARCHES else []), "TPC-H q09")


@pytest.fixture(scope="module")
def tpch_folder(files: Mapping[str, Path]) -> Path:
    return files["lineitem"].parent


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory, tpch_folder: Path) -> Mapping[str, Query]:
    return {query.name: query for query in queries(tmp_path_factory.mktemp("rows"), tpch_folder)}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_pinned_digest_comes_again(
    name: str, known: Mapping[str, Query], client: tidegate.Client, spark: SparkSession
) -> None:
    channels = CHANNELS[CHOSEN.index(name) % len(CHANNELS)]
    assert query_on_spark(known[name], spark).digest(client, channels) == pinned()[str(channels)][name]


def test_a_loop_s_pinned_digest_comes_again(
    known: Mapping[str, Query], client: tidegate.Client, spark: SparkSession
) -> None:
    """It runs whole inside of one Spark task."""
    name = "transitive closure, one statement"
    assert query_on_spark(known[name], spark).digest(client, 2) == pinned()["2"][name]


@pytest.mark.parametrize("name", ["merge join", "TPC-H q09"])
def test_spark_connect_does_not_show(
    name: str, known: Mapping[str, Query], client: tidegate.Client, connected: SparkSession
) -> None:
    assert query_on_spark(known[name], connected).digest(client, 2) == pinned()["2"][name]


def test_where_the_channels_run_does_not_show(tpch_folder: Path, tmp_path: Path, project: Path) -> None:
    """In executors of their own, which also run random plans; one of these is lost, and one hangs. A search has 1 and 4
    cores, too (other tests have 2), more digests, and executors all of which go between two epochs.
    """
    command = [sys.executable, "-m", f"{__package__}.elsewhere", " ".join(ELSEWHERE), str(tpch_folder), str(tmp_path)]
    path = os.pathsep.join([str(project), os.environ.get("PYTHONPATH", "")])
    execution_context = {**os.environ, "PYTHONPATH": path}
    run = subprocess.run(
        [*command, *THERE], cwd=project, env=execution_context, capture_output=True, text=True, check=False, timeout=280
    )
    assert run.returncode == 0, run.stderr[-3000:]
    digests_by_master = json.loads(run.stdout.splitlines()[-1])
    assert list(digests_by_master) == list(ELSEWHERE)
    for digests in digests_by_master.values():
        assert len(digests) == len(THERE)
        for name, digest in digests.items():
            channels, _, query = name.partition(" ")
            assert digest == pinned()[channels][query]
