"""What reads rows from outside checks them: each place where Arrow reads rows or files is listed, with the reason."""

from __future__ import annotations

import ast

from .modules import modules

READING = {
    "ORCFile",
    "ParquetDataset",
    "ParquetFile",
    "RecordBatchFileReader",
    "RecordBatchStreamReader",
    "dataset",
    "open_csv",
    "open_file",
    "open_json",
    "open_stream",
    "read_csv",
    "read_feather",
    "read_json",
    "read_message",
    "read_record_batch",
    "read_table",
}
LIBRARIES = {"pa", "pq", "orc", "pj", "pc", "ds", "feather", "pyarrow"}

#: Modules in which all rows that are read go through `proto.validation`.
CHECKED = {
    "tidegate.spark.staged",
    "tidegate.executor.checkpoints.folder",
    "tidegate.executor.datasets.files",
    "tidegate.executor.spark.files",
    "tidegate.executor.spark.inbox",
    "tidegate.executor.spark.parcels",
    "tidegate.operators.formats.arrow",
    "tidegate.operators.formats.csv",
    "tidegate.operators.formats.json",
    "tidegate.operators.formats.orc",
    "tidegate.operators.formats.parquet",
    "tidegate.proto.arrow_ipc",
}
#: Files that this process has written itself, to a folder that is nobody else's, and deletes.
OWN_FILES = {
    "tidegate.holding",
    "tidegate.executor.kept",
    "tidegate.executor.store",
    "tidegate.operators.held",
    "tidegate.operators.held_rows",
}
#: Schemas and footers alone.
NO_ROWS = {"tidegate.spark.footers", "tidegate.operators.writing.formats"}


def _is_reading(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr=name, value=value) if name in READING:
            return ast.unparse(value).split(".")[0] in LIBRARIES
        case _:
            return False


def _readers() -> set[str]:
    return {
        name
        for name, module in modules().items()
        if not name.startswith("tidegate.operators.testing")
        and any(_is_reading(node) for node in ast.walk(ast.parse(module.path.read_text())))
    }


def test_every_place_that_reads_rows_checks_them_or_says_why_not() -> None:
    assert _readers() == CHECKED | OWN_FILES | NO_ROWS


def test_places_that_check_use_the_one_check() -> None:
    for name in CHECKED:
        used = {each.name for each in modules()[name].imports}
        assert "tidegate.proto.validation" in used, f"{name} reads rows from outside and does not check them"
