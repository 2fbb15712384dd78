"""Batches of a relation's schema are made in one place, which keeps the number of rows where there are no columns.
Empty ones are made in another place, of any type.
"""

from __future__ import annotations

import ast
import re
from typing import Final

import pytest

from .modules import Module, modules

MAKING = "tidegate.operators.core.batches"
_EMPTY: Final = re.compile(
    r"pa\.RecordBatch\.from_pylist\(\[\], .*|.*\.empty_table\(\)|pa\.array\(\[\], (type=)?(?!pa\.).*", re.DOTALL
)
INSIDE = [
    module
    for module in modules().values()
    if not module.generated and module.name.split(".")[1:2] in (["operators"], ["executor"]) and module.name != MAKING
]


@pytest.mark.parametrize("module", INSIDE, ids=lambda module: module.name)
def test_no_batch_is_made_of_a_schema_that_may_have_no_columns(module: Module) -> None:
    lines = [
        node.lineno
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "from_arrays"
        and ast.unparse(node.func) == "pa.RecordBatch.from_arrays"
        and any(keyword.arg == "schema" and not ast.unparse(keyword.value).isupper() for keyword in node.keywords)
    ]
    assert not lines, f"{module.path}: lines {lines} make batches that lose rows without columns: use {MAKING}.batch_of"


@pytest.mark.parametrize(
    "module",
    [module for module in modules().values() if not module.generated],
    ids=lambda module: module.name,
)
def test_nothing_empty_is_made_in_a_way_that_pyarrow_lacks_for_some_types(module: Module) -> None:
    called = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call) and _makes_values(node.func)]
    lines = [node.lineno for node in called if _EMPTY.fullmatch(ast.unparse(node))]
    assert not lines, f"{module.path}: lines {lines} fail for lists of UUIDs: use tidegate.proto.arrow.without_rows"


def _makes_values(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in {"from_pylist", "empty_table", "array"}
