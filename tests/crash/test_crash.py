"""A server that is killed at named points and at random instants gives the rows of an undisturbed one.

`make crash SEEDS=500` tries more seeds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from .cases import CASES
from .killed_runs import Run, killed
from .lives import PATIENCE, Crash, Forking
from .points import POINTS, owner_of

SEEDS = range(1, len(CASES) + 1)
"""A seed for each case."""


@pytest.fixture(scope="module")
def forking() -> Iterator[Forking]:
    with Forking() as forking:
        yield forking


def test_every_point_is_a_call_of_the_server() -> None:
    for point in POINTS:
        owner, name = owner_of(point)
        assert name in vars(owner), point


@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_server_loses_no_row_and_gives_none_twice(tmp_path: Path, forking: Forking, seed: int) -> None:
    outcome = killed(Run.of(seed), forking, tmp_path / "run")
    assert outcome.wrong == ()
    assert outcome.died


def test_a_task_that_is_not_durable_is_noticed(tmp_path: Path, forking: Forking) -> None:
    run = Run.of(2)
    has_task = next(at for at, point in enumerate(POINTS) if point.name == "after EpochLoop._finish")
    crash = Crash(point=has_task, hit=1, seconds=PATIENCE)
    lost = replace(run, options={**run.options, "durability": "none"}, crashes=[crash])
    (wrong,) = killed(lost, forking, tmp_path / "run").wrong
    assert "SERVER_RESTARTED" in wrong or "the server has started again" in wrong


def test_points_of_folders_count_paths_and_open_files(tmp_path: Path) -> None:
    point = next(point for point in POINTS if point.paths == "/rows/")
    (tmp_path / "rows").mkdir()
    (tmp_path / "other").mkdir()
    for folder, counts in (("rows", True), ("other", False)):
        path = tmp_path / folder / "1.temporary"
        with path.open("wb") as file:
            assert point.counts((None, path)) is counts
            assert point.counts((None, file)) is counts
