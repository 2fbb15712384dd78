"""Clicks in epochs, some of which are late, and a service that writes them into tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import substrait.dataframe as sub

import tidegate
from tidegate import windows

COUNT = sub.f.count().alias("rows")
CLICKS = pa.schema([("t", pa.int64()), ("k", pa.string())])
EPOCHS = [[(1, "a"), (12, "b")], [(3, "a"), (11, "b"), (25, "a")], [(4, "c"), (4, "c"), (26, "a")], [(60, "a")]]
"""The rows at 3, 4 and 4 are late for windows of 10."""


@contextmanager
def writing_client(path: Path) -> Iterator[tidegate.Client]:
    """A client of a service that has folders for tables and checkpoints below this path."""
    for name in ("tables", "checkpoints"):
        (path / name).mkdir()
    with tidegate.local(write_root=path / "tables", checkpoint_root=str(path / "checkpoints")) as opened:
        yield opened


def clicks() -> Any:
    return windows.watermark(sub.read_named_table("clicks", {"t": sub.i64, "k": sub.string}), "t")


def fed(rows: list[tuple[int, str]]) -> dict[str, Any]:
    return {"clicks": pa.Table.from_pylist([{"t": t, "k": k} for t, k in rows], CLICKS)}
