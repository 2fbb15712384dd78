"""Arrow streams of data of other programs."""

from __future__ import annotations

from typing import Any


def with_a_stream(data: Any) -> Any:
    """Data whose `__arrow_c_stream__` can be read: the data itself, or the rows of a Spark DataFrame, as a table.

    PySpark 4.3 has the method too. But the method fails if a column is a timestamp with a time zone, or if the session
    compares the types of rows (`spark.sql.execution.arrow.pyspark.validateSchema.enabled`).
    """
    collect = getattr(data, "toArrow", None)
    return data if collect is None else collect()
