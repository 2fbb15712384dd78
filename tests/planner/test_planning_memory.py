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
        ("literals in a list", 30_000, 180),
        ("columns filtered", 3_000, 300),
        ("columns computed", 1_000, 280),
        ("cases", 1_000, 300),
        ("a deep expression", 2_000, 280),
        ("declared functions", 30_000, 140),
    ],
)
def test_a_large_plan_takes_bounded_memory(shape: str, size: int, most: int) -> None:
    """`most` are about twice the MiB that planning takes, with its first epochs."""
    command = [sys.executable, "-m", "benchmarks.plan_growth", "--one", shape, str(size)]
    measured = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True)
    assert float(measured.stdout.split()[-1]) < most
