"""The dialect document says what is run, in the words of the official schema."""

from __future__ import annotations

import functools
from importlib import resources
from typing import Any

import jsonschema
import yaml

from tidegate.planner.dialect import dialect
from tidegate.planner.functions import coverage_rows


@functools.cache
def document() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(dialect())
    return read


@functools.cache
def schema() -> dict[str, Any]:
    text = (resources.files("substrait_extensions") / "dialects/dialect_schema.yaml").read_text()
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def words(property_: str) -> set[str]:
    return set(schema()["properties"][property_]["items"]["oneOf"][0]["enum"])


def test_it_is_valid_by_the_official_schema() -> None:
    jsonschema.validate(document(), schema())
    assert document().keys() <= schema()["properties"].keys()


def test_relations_and_expressions_are_named_in_the_schema_s_words() -> None:
    assert set(document()["supported_relations"]) <= words("supported_relations")
    assert set(document()["supported_expressions"]) <= words("supported_expressions")
    assert {"READ", "SWITCH", "CONSISTENT_PARTITION_WINDOW"} <= {
        *document()["supported_relations"],
        *document()["supported_expressions"],
    }


def test_what_is_refused_is_not_named() -> None:
    assert not {"DDL", "UPDATE"} & set(document()["supported_relations"])
    assert "ENUM" not in document()["supported_expressions"]
    assert "FUNC" not in document()["supported_types"]


def test_its_functions_are_those_of_the_coverage_table() -> None:
    for kind in ("scalar", "aggregate", "window"):
        listed = {(entry["source"], entry["name"]) for entry in document()[f"supported_{kind}_functions"]}
        assert listed == {(row.file, row.name) for row in coverage_rows() if row.supported and row.kind == kind}


def test_every_source_is_a_dependency() -> None:
    kinds = ("supported_scalar_functions", "supported_aggregate_functions", "supported_window_functions")
    assert {entry["source"] for kind in kinds for entry in document()[kind]} <= document()["dependencies"].keys()
    assert document()["dependencies"]["functions_arithmetic"] == "extension:io.substrait:functions_arithmetic"


def test_an_implementation_is_known_by_its_argument_signature() -> None:
    implementations = {
        (entry["source"], entry["name"]): entry["supported_impls"] for entry in document()["supported_scalar_functions"]
    }
    assert "i64_i64" in implementations["functions_arithmetic", "add"]
