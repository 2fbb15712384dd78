"""`sql`: runs a SQL query over DataFrames. DataFusion plans the query as Substrait, and Tidegate runs the plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from ..client import Client
from ..plans import with_parameters
from ..proto.arrow.without_rows import no_rows
from ..proto.errors import InvalidRequest
from .data_frames import data_frame
from .frame_columns import arrow_type
from .querying import over_frames


def sql(
    text: str,
    /,
    *,
    client: Client | None = None,
    staging: str | None = None,
    parameters: Sequence[object] = (),
    **frames: DataFrame,
) -> DataFrame:
    """A SQL query over DataFrames, by the names of the arguments, as a DataFrame.

    >>> tidegate.spark.sql("SELECT sum(amount) AS total FROM sales WHERE item = 'tea'", sales=data_frame).collect()
    [Row(total=7)]

    The dialect is DataFusion's, which plans the query: `pip install 'tidegate[sql]'`. Write names of tables and columns
    as the DataFrames have them, in the same upper and lower case. The plan runs as in `query`. `parameters` are the
    values of `$1`, `$2` and so on in the query.
    """
    tables = {name: data_frame(frame, f"table {name!r}") for name, frame in frames.items()}
    plan = with_parameters(_planned(text, tables), dict(enumerate(parameters)))
    return over_frames(plan, tables, client=client, staging=staging, may_be_unread=True)


def _planned(text: str, frames: dict[str, DataFrame]) -> bytes:
    """The query as a Substrait plan over tables that have the DataFrames' columns."""
    try:
        from datafusion import SessionConfig, SessionContext
        from datafusion.substrait import Serde
    except ImportError as missing:
        raise InvalidRequest(
            "tidegate.spark.sql needs DataFusion, which plans the query: pip install 'tidegate[sql]'",
            reason="NO_DATAFUSION",
        ) from missing
    context: Any = SessionContext(SessionConfig().set("datafusion.sql_parser.enable_ident_normalization", "false"))
    for name, frame in frames.items():
        columns = pa.schema([(field.name, arrow_type(field.dataType, field.name)) for field in frame.schema])
        context.register_record_batches(name, [[no_rows(columns)]])
    try:
        return bytes(Serde.serialize_bytes(text, context))
    except Exception as refused:  # DataFusion has no class of its own for its errors
        raise InvalidRequest(f"DataFusion does not plan the query: {refused}", reason="SQL_REFUSED") from refused
