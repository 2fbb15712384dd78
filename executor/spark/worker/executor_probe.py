"""A first look at the executors of an application: their user, and whether they write where they must."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

SEEN: Final = pa.schema([("user", pa.string()), ("path", pa.string()), ("error", pa.string())])
SEEN_DDL: Final = "user string, path string, error string"


@dataclass(frozen=True, slots=True)
class Probe:
    """Writes a file with this content into the folder, in each of Spark's tasks."""

    folder: str
    content: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                path = Path(self.folder) / f"probe-{self.content}-{number}"
                try:
                    path.write_text(self.content, encoding="ascii")
                    error = ""
                except OSError as failure:
                    error = f"{type(failure).__name__}: {failure.strerror}"
                values = ([whoami()], [str(path)], [error])
                yield pa.RecordBatch.from_arrays([pa.array(value, pa.string()) for value in values], schema=SEEN)


def whoami() -> str:
    """The user of this process, with its number."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = "?"
    return f"{name} (user id {os.getuid()})"
