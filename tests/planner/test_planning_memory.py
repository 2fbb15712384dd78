"""Memory of the largest plans while they are planned, in a process of its own: it follows what is in them."""

from __future__ import annotations

import pytest

from .. import forked


@pytest.mark.parametrize(
    ("shape", "size", "most"),
    [
        ("literals in a list", 30_000, 143),
        ("columns filtered", 3_000, 263),
        ("columns computed", 1_000, 243),
        ("cases", 1_000, 263),
        ("a deep expression", 2_000, 243),
        ("declared functions", 30_000, 103),
    ],
)
def test_a_large_plan_takes_bounded_memory(shape: str, size: int, most: int) -> None:
    """`most` are about twice the MiB that planning takes, with its first epochs. Pandas, which would come with an
    epoch's rows, takes 37 MiB and is left out.
    """
    measured = forked.run("benchmarks.plan_growth", "--one", shape, size)
    assert measured.returncode == 0, measured.stderr
    assert float(measured.stdout.split()[-1]) < most
