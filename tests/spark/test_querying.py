"""`query`: a plan over DataFrames, whose answer is a DataFrame."""

from __future__ import annotations

import pytest
import substrait.dataframe as sub
from pyspark.sql import SparkSession

import tidegate.spark

from .conftest import handed_on


@pytest.fixture(params=["UTC", "America/New_York"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", request.param)
    return session


def test_timestamps_with_and_without_a_time_zone_stay_what_they_are(session: SparkSession) -> None:
    plan = handed_on({"n": sub.precision_timestamp(6), "z": sub.precision_timestamp_tz(6)})
    frame = session.sql("SELECT timestamp_ntz'2024-03-10 02:30:00' AS n, timestamp'2024-03-10 12:30:00 UTC' AS z")
    answer = tidegate.spark.query(plan, {"rows": frame})
    assert answer.dtypes == [("n", "timestamp_ntz"), ("z", "timestamp")]
    assert answer.collect() == frame.collect()
