"""Arrow streams of data of other programs."""

from __future__ import annotations

from typing import Any


def with_a_stream(data: Any) -> Any:
    """Data whose `__arrow_c_stream__` can be read: the data itself, or the rows of a Spark DataFrame, as a table.

    PySpark 4.3 has the method too. But the method fails if a column is a timestamp with a time zone, or if the session
    compares the types of rows (`spark.sql.execution.arrow.pyspark.validateSchema.enabled`). A DataFrame of
    pandas-on-Spark has the method of PySpark's, and would hand on its index as a column.
    """
    # Their classes are asked: a DataFrame takes any other name for that of a column.
    frame = data.to_spark() if hasattr(type(data), "to_spark") else data
    return frame.toArrow() if hasattr(type(frame), "toArrow") else frame
