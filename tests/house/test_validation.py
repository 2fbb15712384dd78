"""Checks of rows from outside: each place where Arrow reads rows or files is listed, with the reason."""

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
    "tidegate.spark.data_source.shared_files",
    "tidegate.spark.supplies.staged",
    "tidegate.executor.checkpoints.checkpoint_folder",
    "tidegate.executor.datasets.dataset_files",
    "tidegate.executor.journal.kept_reader",
    "tidegate.executor.spark.staged_files",
    "tidegate.executor.spark.worker.inbox",
    "tidegate.executor.spark.worker.parcels",
    "tidegate.operators.sources.formats.arrow",
    "tidegate.operators.sources.formats.orc_readers",
    "tidegate.operators.sources.formats.parquet",
    "tidegate.operators.sources.formats.parquet_widths",
    "tidegate.proto.arrow.arrow_ipc",
}
#: A parser makes the rows, of text that is checked as a whole.
PARSED = {"tidegate.operators.sources.formats.csv", "tidegate.operators.sources.formats.json"}
#: Files that this process has written itself, to a folder that is nobody else's, and deletes.
OWN_FILES = {
    "tidegate.splits",
    "tidegate.proto.arrow.spill_buffer",
    "tidegate.executor.runtime.batch_store",
}
#: Rows are checked by the process that they are for.
PASSED_ON = {"tidegate.operators.sources.formats.orc_process"}
#: Schemas and footers alone.
NO_ROWS = {
    "tidegate.spark.supplies.footers",
    "tidegate.operators.sources.formats.parquet_opening",
    "tidegate.operators.writing.formats",
}


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
        and any(_is_reading(node) for node in ast.walk(module.tree))
    }


def test_every_place_that_reads_rows_checks_them_or_says_why_not() -> None:
    assert _readers() == CHECKED | PARSED | OWN_FILES | NO_ROWS | PASSED_ON


def test_places_that_check_use_the_one_check() -> None:
    for name in CHECKED:
        used = {import_.name for import_ in modules()[name].imports}
        assert "tidegate.proto.arrow.validation" in used, f"{name} reads rows from outside and does not check them"


def test_parsers_of_text_read_it_through_the_check_of_text() -> None:
    for name in PARSED:
        used = {import_.name for import_ in modules()[name].imports}
        assert "tidegate.operators.sources.formats.text_blocks" in used
    text_blocks = modules()["tidegate.operators.sources.formats.text_blocks"]
    assert "tidegate.proto.arrow.utf8" in {import_.name for import_ in text_blocks.imports}
