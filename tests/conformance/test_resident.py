"""A few of the runs that `make resident` makes: wide rows take no more than the task's limit and 256 MiB."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .resident import ELSE, KINDS, MIB, SCHEMA, WIDTHS, batches, resident

LIMIT = 64 * MIB
ANSWERED = (
    "read",
    "arrow in one batch",
    "csv",
    "json",
    "limit",
    "sort",
    "sort by the text",
    "greatest by each key",
    "join",
)
"""Kinds that give their rows, although these are several times the limit."""


@pytest.mark.skipif(sys.platform != "linux", reason="the system's count is Linux's")
@pytest.mark.parametrize("kind", [*ANSWERED, "loop that joins texts"])
def test_wide_rows_take_no_more_than_the_limit_and_256_mib(tmp_path: Path, kind: str) -> None:
    taken = resident(kind, WIDTHS["100 KB"], tmp_path, limit=LIMIT, size=200 * MIB)
    assert taken.peak <= LIMIT + ELSE, f"{taken.peak >> 20} MiB"
    assert taken.rows or (kind not in ANSWERED and taken.error.startswith("MEMORY_LIMIT")), taken.error


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_a_plan(kind: str) -> None:
    assert KINDS[kind].plan()


@pytest.mark.parametrize("width", [8, 1_000])
def test_no_two_texts_are_alike(width: int) -> None:
    texts = [text for batch in batches(width, 200_000, 10_000) for text in batch["t"].to_pylist()]
    assert len(set(texts)) == len(texts) > 100
    assert {len(text) for text in texts} == {width}
    assert next(batches(width, 200_000)).schema == SCHEMA
