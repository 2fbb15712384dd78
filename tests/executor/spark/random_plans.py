"""The random plans of the local tests, nested and over random rows, run here and on Spark."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import tidegate
from tests.conformance.test_random_plans import BASES, FED, Fed, any_way, bits, planned
from tests.on_channels import on_spark

from ...on_channels import on_channels

NESTED = any_way(any_way(BASES))


def differing(client: tidegate.Client, spark: SparkSession, *, examples: int) -> None:
    """Fails with the first plan whose digests are not the same."""

    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(NESTED, FED, st.integers(1, 3))
    def check(sql: str, fed: Fed, channels: int) -> None:
        plan = planned(sql)
        here = answer(client, plan, fed, **on_channels(channels))
        there = answer(client, plan, fed, **on_channels(channels), **on_spark(spark))
        assert bits(there) == bits(here), sql

    check()


def answer(client: tidegate.Client, plan: bytes, fed: Fed, **options: object) -> pa.Table:
    with client.create_task(plan, **options) as task:
        return task.run_epoch({name: fed[name] for name in task.sources}).table()
