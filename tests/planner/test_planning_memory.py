"""Memory of the largest plans while they are planned, in a process of its own: it follows what is in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("shape", "size", "most"),
    [
        ("literals in a list", 100_000, 300),
        ("columns filtered", 8_000, 900),
        ("columns computed", 2_000, 400),
        ("cases", 2_000, 400),
        ("a deep expression", 4_900, 500),
        ("declared functions", 100_000, 200),
    ],
)
def test_a_large_plan_takes_bounded_memory(shape: str, size: int, most: int) -> None:
    """`most` are about twice the MiB that planning takes, with its first epochs."""
    command = [sys.executable, "-m", "benchmarks.plan_growth", "--one", shape, str(size)]
    measured = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    assert float(measured.stdout.split()[-1]) < most
