"""Answers about a schema that are remembered for the batches that come next."""

from __future__ import annotations

import pyarrow as pa

from tidegate.proto.arrow.last_schema import of_last_schema


def schema_of(*types: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(f"c{at}", type_) for at, type_ in enumerate(types)])


def test_an_answer_is_asked_for_once_for_equal_schemas_one_after_the_other() -> None:
    asked = []

    @of_last_schema
    def width(schema: pa.Schema) -> int:
        asked.append(schema)
        return len(schema)

    schemas = [schema_of(pa.int64()), schema_of(pa.int64()), schema_of(pa.int64(), pa.string()), schema_of(pa.int64())]
    assert [width(schema) for schema in schemas] == [1, 1, 2, 1]
    assert asked == [schemas[0], *schemas[2:]]


def test_schemas_that_differ_only_inside_of_a_type_are_different() -> None:
    inner = of_last_schema(lambda schema: schema.types[0].value_type)
    assert [inner(schema_of(pa.list_(type_))) for type_ in (pa.int64(), pa.string())] == [pa.int64(), pa.string()]


def test_an_error_is_no_answer() -> None:
    @of_last_schema
    def refuse(schema: pa.Schema) -> None:
        raise ValueError(len(schema))

    errors = []
    for _ in range(2):
        try:
            refuse(schema_of(pa.int64()))
        except ValueError as error:
            errors.append(error)
    assert len(errors) == 2
