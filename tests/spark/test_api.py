"""The examples of the public names for Spark run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ..house import api_examples


@pytest.mark.parametrize("path", [path for path in api_examples.examples() if api_examples.of_spark(path)])
def test_the_example_of_a_name_runs_and_prints_what_it_shows(path: str, spark: SparkSession, tmp_path: Path) -> None:
    api_examples.run(path, tmp_path, session=spark)
