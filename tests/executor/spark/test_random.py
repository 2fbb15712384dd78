"""Random plans over random rows: what Spark answers is what this process answers, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import tidegate

from .random_plans import differing


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as local_client:
        yield local_client


def test_random_plans_have_the_local_rows_in_the_local_order(client: tidegate.Client, spark: SparkSession) -> None:
    differing(client, spark, examples=6)
