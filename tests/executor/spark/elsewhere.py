"""Digests of pinned plans on a Spark of its own: `MASTER TPCH_FOLDER FOLDER QUERY ...` as a program."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

import tidegate
from tests import sparks
from tests.conformance import strict_digests
from tests.conformance.loop_queries import loop_queries
from tests.conformance.strict_digests import Query
from tidegate.planner.spread import spreading

CHANNELS = (1, 2, 3)


def queries(folder: Path, tpch_folder: Path) -> Iterator[Query]:
    """The pinned plans of per-epoch tasks."""
    yield from strict_digests.operator_queries(folder, odd=False, prefetch=0)
    yield from (each for each in loop_queries(lambda table: table) if each.options.get("mode") != "continuous")
    yield from strict_digests.queries(folder, tpch_folder, odd=False)
    yield from strict_digests.ordered_queries(folder, tpch_folder, odd=False)


def on_spark(query: Query, spark: SparkSession) -> Query:
    return replace(query, options={**query.options, "executor": "spark", "spark": spark})


@contextlib.contextmanager
def session(master: str, folder: Path) -> Iterator[SparkSession]:
    """`connect` is a server of Spark Connect, which is started with the session."""
    if master == "connect":
        os.environ["PYSPARK_PYTHON"] = sys.executable
        made = SparkSession.builder.remote("local[2]").getOrCreate()
    else:
        made = sparks.start(master, folder)
    try:
        yield made
    finally:
        made.stop()


def digests(spark: SparkSession, folder: Path, tpch_folder: Path, names: Sequence[str]) -> dict[str, str]:
    with tidegate.local() as client:
        return {
            f"{channels} {query.name}": on_spark(query, spark).digest(client, channels)
            for at, query in enumerate(each for each in queries(folder, tpch_folder) if each.name in names)
            for channels in (CHANNELS[at % len(CHANNELS)],)
        }


def main(master: str, tpch_folder: str, folder: str, *names: str) -> None:
    warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas")
    spreading.WORTHWHILE = 0.0  # as in every test
    with session(master, Path(folder) / "spark") as spark:
        print(json.dumps(digests(spark, Path(folder), Path(tpch_folder), names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
