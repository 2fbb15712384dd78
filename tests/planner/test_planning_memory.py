"""Memory of the largest plans while they are planned, in a process of its own: it follows what is in them."""

from __future__ import annotations

import pytest

from .. import forked


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
    measured = forked.run("benchmarks.plan_growth", "--one", shape, size)
    assert measured.returncode == 0, measured.stderr
    assert float(measured.stdout.split()[-1]) < most
