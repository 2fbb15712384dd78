"""Producers that run in an environment of their own: they need other releases of DuckDB and of substrait than Tidegate.
`make producers-venv` makes it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

HERE: Final = Path(__file__).parent
PYTHON: Final = Path(os.environ.get("PRODUCERS_PYTHON", HERE.parent.parent / ".venv-producers" / "bin" / "python"))
needed = pytest.mark.skipif(not PYTHON.exists(), reason="the producers are not here: make producers-venv")
"""Marks tests that need the producers."""

DAYS: Final = [
    dt.date(2024, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(2025, 12, 31),
    None,
    dt.date(1969, 7, 20),
    dt.date(2024, 3, 1),
]
TABLES: Final[Mapping[str, pa.Table]] = {
    "t": pa.table(
        {
            "k": pa.array([1, 2, 3, 4, 5, 6]),
            "a": pa.array([1, 2, None, -5, 1, 2]),
            "f": pa.array([1.5, -2.5, 4.0, None, 0.25, 8.0]),
            "s": pa.array(["apple", "Banana", None, "", "cab", "xaybz"]),
            "d": pa.array(DAYS),
            "b": pa.array([True, False, None, True, False, False]),
        }
    ),
    "u": pa.table({"k": pa.array([2, 3, 3, 9]), "name": pa.array(["two", "three", None, "nine"])}),
}

Written = Mapping[str, Mapping[str, str]]


def written(script: str, *arguments: str, queries: Sequence[str] | None = None) -> Written:
    """The plans of these queries, or of the script's own."""
    command = [str(PYTHON), str(HERE / script), *arguments]
    asked = json.dumps(queries)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    plans: Written = json.loads(done.stdout)
    return plans
