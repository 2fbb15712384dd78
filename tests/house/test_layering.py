"""Imports point one way: proto <- operators <- planner <- executor <- server; clients use proto and one entry.

`tidegate.testing` is no client: it is where authors of operators find the operators' checks, and nothing imports it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

from .modules import FOLDERS, TOP, Import, Module, modules

LAYERS = ("proto", "operators", "planner", "executor", "server")
EMBEDDED = "tidegate.executor.service.embedded"
FOR_AUTHORS = "tidegate.testing"
EXTRAS = {
    "adbc_driver_sqlite",
    "pyspark",
    "torch",
    "jax",
    "datafusion",
    "grpc_tools",
    "pytest",
    "hypothesis",
    "polars",
    "pandas",
}
OWN = [module for module in modules().values() if not module.generated]


def layer(name: str) -> str:
    """The sub-package a module belongs to; `clients` for the root package's own modules."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYERS else "clients"


def allowed(module: Module, target: str) -> bool:
    here, there = layer(module.name), layer(target)
    if target == FOR_AUTHORS:
        return False
    if module.name == FOR_AUTHORS:
        return there == "operators"
    if here == "clients":
        return there in ("clients", "proto") or target == EMBEDDED
    if there == "clients":
        return here == "server"
    return LAYERS.index(there) <= LAYERS.index(here)


def imports(*, own: bool) -> Iterator[tuple[Module, Import]]:
    """Every import of our own modules, or of others'."""
    for module in OWN:
        yield from ((module, import_) for import_ in module.imports if import_.own == own)


def where(module: Module, import_: Import) -> str:
    return f"{module.path.relative_to(TOP)}:{import_.line} imports {import_.name}"


def test_imports_point_one_way() -> None:
    assert [where(module, import_) for module, import_ in imports(own=True) if not allowed(module, import_.name)] == []


def test_imports_between_our_own_modules_are_relative() -> None:
    assert [where(module, import_) for module, import_ in imports(own=True) if not import_.relative] == []


def of_spark(module: Module, import_: Import) -> bool:
    """Sub-packages for those who have Spark; nothing else imports them before it is asked for Spark."""
    return module.name.startswith(("tidegate.executor.spark.", "tidegate.spark.")) and import_.name.startswith(
        "pyspark"
    )


def of_arrays(module: Module, import_: Import) -> bool:
    """The conversions of training batches, whose imports run where somebody asks for those arrays."""
    return module.name.startswith("tidegate.training.") and import_.name.split(".")[0] in ("torch", "jax")


def of_sql(module: Module, import_: Import) -> bool:
    """The planner of SQL over DataFrames, imported where somebody runs such a query."""
    return module.name == "tidegate.spark.sql_queries" and import_.name.split(".")[0] == "datafusion"


def test_the_core_does_without_the_extras() -> None:
    theirs = {("tidegate.proto.generate", "grpc_tools"), ("tidegate.operators.indexes.sql", "adbc_driver_sqlite")}
    touched = [
        (module, import_)
        for module, import_ in imports(own=False)
        if import_.name.split(".")[0] in EXTRAS
        and (module.name, import_.name) not in theirs
        and not of_spark(module, import_)
        and not of_arrays(module, import_)
        and not of_sql(module, import_)
    ]
    assert [where(*touch) for touch in touched] == []


def test_the_import_rule_refuses_an_import_that_points_up() -> None:
    operator = modules()["tidegate.operators.core.operator"]
    assert not allowed(operator, "tidegate.planner.ir")
    assert allowed(modules()["tidegate.planner.ir"], "tidegate.operators.core.operator")


def test_only_what_is_for_authors_of_operators_reaches_them_from_the_root_package() -> None:
    authors, client = modules()[FOR_AUTHORS], modules()["tidegate.client"]
    assert allowed(authors, "tidegate.operators.testing")
    assert not allowed(client, "tidegate.operators.testing")
    assert not allowed(client, FOR_AUTHORS)
    assert not allowed(authors, "tidegate.planner.ir")


def test_importing_the_client_loads_neither_engine_nor_wire() -> None:
    script = "import sys, tidegate; print(sorted({'duckdb', 'grpc', 'substrait'} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def test_everything_but_spark_is_imported_without_pyspark_and_spark_says_what_is_missing() -> None:
    script = """
import importlib, sys
sys.modules["pyspark"] = None
names = [name for name in sys.argv[1:] if not name.startswith(("tidegate.spark.", "tidegate.executor.spark."))]
for name in names:
    importlib.import_module(name)
try:
    importlib.import_module("tidegate.spark").feed
except ModuleNotFoundError as missing:
    print(missing)
"""
    names = [module.name for module in OWN if layer(module.name) == "clients" and module.name != FOR_AUTHORS]
    shown = subprocess.run([sys.executable, "-c", script, *names], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "tidegate.spark.feed needs PySpark: pip install 'tidegate[spark]'"


def test_every_sub_package_is_one_of_the_layers() -> None:
    assert set(FOLDERS) == {"tidegate", *(f"tidegate.{name}" for name in LAYERS)}
