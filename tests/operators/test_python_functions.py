"""The functions that statements have in Python: what they answer, and that a text of any length ends in time."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.python_functions.edit_distance import EDIT_DISTANCE_STEPS, edit_distance
from tidegate.operators.python_functions.sha2 import sha2

TEXTS = st.text("abäß😀", max_size=12)


def nothing() -> None:
    """Nobody has interrupted."""


def distance_by_definition(left: str, right: str) -> int:
    if not left or not right:
        return len(left) + len(right)
    table = {(row, 0): row for row in range(len(left) + 1)} | {(0, at): at for at in range(len(right) + 1)}
    for row, a in enumerate(left, 1):
        for at, b in enumerate(right, 1):
            replaced = table[row - 1, at - 1] + (a != b)
            table[row, at] = min(table[row - 1, at] + 1, table[row, at - 1] + 1, replaced)
    return table[len(left), len(right)]


@given(left=TEXTS, right=TEXTS)
def test_a_distance_counts_the_characters_to_change(left: str, right: str) -> None:
    assert edit_distance([left], [right], nothing).to_pylist() == [distance_by_definition(left, right)]


def test_a_distance_from_a_null_is_null() -> None:
    assert edit_distance(["a", None, None], [None, "b", None], nothing).to_pylist() == [None] * 3


def test_texts_that_would_take_long_are_refused_with_their_lengths() -> None:
    with pytest.raises(ValueError, match="texts of 100,001 and 1,000 characters are too long for levenshtein"):
        edit_distance(["a" * 100_001], ["b" * (EDIT_DISTANCE_STEPS // 100_000)], nothing)


@pytest.mark.parametrize("algorithm", ["sha224", "sha384", "sha512"])
@given(value=st.binary(max_size=300))
def test_a_hash_is_that_of_its_algorithm(algorithm: str, value: bytes) -> None:
    assert sha2([algorithm], [value], nothing).to_pylist() == [hashlib.new(algorithm, value).digest()]


def test_rows_are_interrupted_one_by_one() -> None:
    class StoppedError(Exception):
        pass

    seen: list[int] = []

    def stop() -> None:
        seen.append(1)
        if len(seen) == 2:
            raise StoppedError

    with pytest.raises(StoppedError):
        edit_distance(["a"] * 9, ["b"] * 9, stop)
    assert len(seen) == 2
