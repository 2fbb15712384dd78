"""The functions that statements have in Python: what they answer, and that a text of any length ends in time."""

from __future__ import annotations

import hashlib
import re

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.python_functions.edit_distance import EDIT_DISTANCE_STEPS, edit_distance
from tidegate.operators.python_functions.like import like
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


LIKES = st.text("aab_%\\é", max_size=8)


@given(text=st.text("aab_\\é", max_size=12), pattern=LIKES, escape=st.sampled_from(["", "\\", "a", "_", "%"]))
def test_like_is_that_of_duckdb(text: str, pattern: str, escape: str) -> None:
    """Where an escape ends the pattern, DuckDB has an error only if it gets that far in the text."""
    sign = re.escape(escape)
    if escape and re.fullmatch(f"(?:{sign}.|[^{sign}])*{sign}", pattern):
        with pytest.raises(ValueError, match="ends with its escape character"):
            like([text], [pattern], [escape], nothing)
        return
    ((expected,),) = duckdb.execute("SELECT $1 LIKE $2 ESCAPE $3", [text, pattern, escape]).fetchall()
    assert like([text], [pattern], [escape], nothing).to_pylist() == [expected]


def test_like_of_long_texts_takes_few_steps_or_can_be_stopped() -> None:
    def checks(length: int, pattern: str) -> int:
        looks: list[None] = []
        assert like(["a" * length], [pattern], [""], lambda: looks.append(None)).to_pylist() == [False]
        return len(looks)

    assert checks(500_000, "%" + "a" * 100_000 + "b%") < 10
    assert checks(3_000, "%" + "a" * 1_000 + "_b%") > 3
    assert checks(3_000, "%" + "a_" * 500 + "b%") > 1_000
    assert checks(3_000, "%a" * 1_500 + "_b") > 1_000


def test_like_of_nulls_is_null_and_of_a_long_escape_an_error() -> None:
    assert like([None, "a", "a"], ["a", None, "%%"], [""] * 3, nothing).to_pylist() == [None, None, True]
    with pytest.raises(ValueError, match="one character of ASCII"):
        like(["a"], ["a"], ["ab"], nothing)


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
