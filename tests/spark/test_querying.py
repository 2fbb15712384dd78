"""`query` and `sql`: a plan, or a query, over DataFrames, whose answer is a DataFrame."""

from __future__ import annotations

import pytest
import substrait.dataframe as sub
from pyspark.sql import SparkSession

import tidegate
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


SALES = (
    "SELECT id AS k, id % 3 AS Shop, cast(id * 10 AS decimal(9, 2)) AS amount, date'2024-01-01' AS day FROM range(20)"
)
SHOPS = "SELECT id AS Shop, if(id = 2, null, concat('shop ', id)) AS name FROM range(3)"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT Shop, sum(amount) AS total, count(*) AS n FROM sales GROUP BY Shop",
        "SELECT s.k, t.name FROM sales s LEFT JOIN shops t ON s.Shop = t.Shop AND t.name IS NOT NULL WHERE s.k < 5",
        "SELECT k, row_number() OVER (PARTITION BY Shop ORDER BY amount DESC) AS place FROM sales",
        "SELECT name, CASE WHEN Shop = 0 THEN 'first' ELSE 'other' END AS which FROM shops",
        "SELECT max(day) AS last FROM sales WHERE k IN (SELECT Shop FROM shops WHERE name LIKE 'shop%')",
    ],
)
def test_a_query_has_the_answer_that_spark_gives(spark: SparkSession, text: str) -> None:
    frames = {"sales": spark.sql(SALES), "shops": spark.sql(SHOPS)}
    answer = tidegate.spark.sql(text, **frames)
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    expected = spark.sql(text)
    assert answer.columns == expected.columns
    assert sorted(map(tuple, answer.collect()), key=str) == sorted(map(tuple, expected.collect()), key=str)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT shop FROM shops", "No field named shop"),
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELEC", "Expected: an SQL statement"),
    ],
)
def test_a_query_that_is_not_planned_is_refused(spark: SparkSession, text: str, sentence: str) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=sentence) as refused:
        tidegate.spark.sql(text, shops=spark.sql(SHOPS))
    assert refused.value.reason == "SQL_REFUSED"
