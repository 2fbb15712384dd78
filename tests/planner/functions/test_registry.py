"""The registry reads a function's own lines of an extension file: it must find what the whole file says."""

from __future__ import annotations

import functools
from collections import Counter
from importlib import resources
from typing import Any

import pytest
import yaml

from tidegate.planner import ir
from tidegate.planner.functions import registry

FOLDERS = (
    resources.files("substrait_extensions") / "extensions",
    resources.files("tidegate.planner.functions") / "extensions",
)
FILES = {
    file.name.removesuffix(".yaml"): file
    for folder in FOLDERS
    for file in folder.iterdir()
    if file.name.endswith(".yaml") and not file.name.startswith("simple_")
}


@functools.cache
def content(file: str) -> dict[str, Any]:
    """What the whole file says: read by the process that runs these tests alone, as it takes seconds."""
    read: dict[str, Any] = yaml.safe_load(FILES[file].read_text(encoding="utf-8"))
    return read


def written(file: str) -> Counter[tuple[object, ...]]:
    """The implementations that a file has: kind, name, result and the arguments' names."""
    return Counter(
        (kind, function["name"], str(entry["return"]), tuple(a.get("name", "") for a in entry.get("args") or ()))
        for kind in ir.FunctionKind
        for function in content(file).get(f"{kind.value}_functions") or ()
        for entry in function["impls"]
    )


@pytest.mark.parametrize("file", FILES)
def test_every_implementation_of_a_file_is_found(file: str) -> None:
    read = Counter(
        (one.kind, one.name, one.result, tuple(parameter.name for parameter in one.parameters))
        for one in registry.everything()
        if one.file == file
    )
    assert read == written(file)


def test_all_names_are_known_without_reading_a_function() -> None:
    for kind in ir.FunctionKind:
        names = {function["name"] for file in FILES for function in content(file).get(f"{kind.value}_functions") or ()}
        assert registry.names(kind) == names


def test_a_name_finds_its_own_implementations_alone() -> None:
    for kind, name in {(one.kind, one.name) for one in registry.everything()}:
        own = [one for one in registry.implementations(kind, name) if one.kind is kind]
        assert own == [one for one in registry.everything() if (one.kind, one.name) == (kind, name)]


def test_names_that_no_file_has_leave_nothing_behind() -> None:
    before = registry._load.cache_info().currsize
    assert not any(registry.implementations(ir.FunctionKind.SCALAR, f"no_such_{n}") for n in range(100))
    assert registry._load.cache_info().currsize == before
