"""Tables of Spark's catalog, `CREATE TABLE ... USING tidegate`.

Spark 4.3 hands the options of such a table to nobody who reads it, but keeps the table's columns with their metadata,
and hands these to every read. So the first column of the table has the options in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.sql.types import StructType

from ...proto.errors import InvalidRequest

METADATA: Final = "tidegate.options"
"""The name of the options in the metadata of a table's first column."""

_PROVIDER: Final = "provider"
_OPTION: Final = "option."
_WHICH: Final = {"plan", "path", "task"}


def of_clause(properties: Mapping[str, str]) -> Mapping[str, str] | None:
    """The options of CREATE TABLE among the properties of the new table; None if no table is being created."""
    if _PROVIDER not in properties:
        return None
    return {name[len(_OPTION) :]: value for name, value in properties.items() if name.startswith(_OPTION)}


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema, with the options where reads of the table find them."""
    if not len(schema):
        raise InvalidRequest(
            "a result without columns cannot be a table of Spark's catalog: use CREATE TEMPORARY VIEW ... USING "
            "tidegate OPTIONS (...)",
            reason="UNSUPPORTED_COLUMN",
        )
    document = schema.jsonValue()
    document["fields"][0]["metadata"][METADATA] = json.dumps(dict(options))
    return StructType.fromJson(document)


def options_to_read(options: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """The options of a read: the query's own, and without a plan or task among them those of the table of this schema.

    Raises `InvalidRequest` for a table that was created with columns, so that Spark has asked for no schema, and for
    one that has lost its first column.
    """
    if _WHICH & options.keys():
        return options
    for field in schema:
        if METADATA in field.metadata:
            kept: dict[str, Any] = json.loads(field.metadata[METADATA])
            return {**kept, **options}
    raise InvalidRequest(
        "there is nothing to read: this table of Spark's catalog has no options, because Spark keeps them only if "
        "CREATE TABLE names no columns, and only until ALTER TABLE drops or replaces the first column: write CREATE OR "
        "REPLACE TABLE name USING tidegate OPTIONS (server ..., plan ...), or name the options in the query: "
        "SELECT ... FROM name WITH (server = ..., plan = ...)",
        reason="UNKNOWN_OPTION",
    )


def check_written(options: Mapping[str, str]) -> None:
    """Raise `InvalidRequest` for a write that names no task: Spark hands the options of a table to no write."""
    if "task" not in options:
        raise InvalidRequest(
            "name the task to feed with option('task', ...): a table of Spark's catalog cannot be written, because "
            'Spark hands its options to no write; use format("tidegate") with save() or start(), or INSERT INTO name '
            "WITH (server = ..., task = ..., source = ...)",
            reason="UNKNOWN_OPTION",
        )
