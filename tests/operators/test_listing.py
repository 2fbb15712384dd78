"""Listing folders ends: at its bounds, and when nobody wants the files any more."""

from __future__ import annotations

import contextvars
from pathlib import Path

import pytest

from tidegate.operators.sources.listing import Bounds, files_below
from tidegate.proto.current_call import work_for
from tidegate.proto.errors import Exhausted, InvalidRequest, Unavailable


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Ten folders of ten files, the last one eight deep."""
    for folder in range(10):
        deep = tmp_path / f"f{folder}" if folder < 9 else tmp_path.joinpath("f9", *"abcdefg")
        deep.mkdir(parents=True)
        for file in range(10):
            (deep / f"{file}.parquet").touch()
    return tmp_path


@pytest.mark.parametrize("below", ["", "**/*.parquet", "**", "*/**"])
@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (Bounds(files=99), "more than 99 files"),
        (Bounds(folders=9), "more than 9 folders"),
        (Bounds(depth=5), "folders more than 5 deep"),
        (Bounds(seconds=-1.0), "more files than can be listed in -1 s"),
    ],
)
def test_a_listing_beyond_a_bound_is_refused_with_the_bound(tree: Path, below: str, bounds: Bounds, said: str) -> None:
    path = str(tree / below)
    assert len(files_below(path)) == 100
    with pytest.raises(Exhausted, match=said) as refused:
        files_below(path, bounds)
    assert refused.value.reason == "TOO_MANY_FILES"


@pytest.mark.parametrize("below", ["", "**/*.parquet"])
def test_a_listing_ends_when_its_caller_has_left(tree: Path, below: str) -> None:
    left = iter([False, False, True])

    def listed() -> list[str]:
        work_for(lambda: next(left))
        return files_below(str(tree / below))

    with pytest.raises(Unavailable, match="the caller has disconnected"):
        contextvars.copy_context().run(listed)


def test_a_pattern_of_very_many_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="at most 100 are allowed"):
        files_below(str(tmp_path.joinpath(*["*"] * 101)))


def test_a_pattern_that_looks_at_the_same_folders_again_and_again_ends(tmp_path: Path) -> None:
    tmp_path.joinpath(*"abcdefghijklmnopqrstuvwxyz").mkdir(parents=True)
    with pytest.raises(Exhausted, match="more than 10,000 folders"):
        files_below(str(tmp_path.joinpath(*["**"] * 20, "x")), Bounds(folders=10_000))
