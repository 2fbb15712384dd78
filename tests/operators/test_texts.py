"""Texts as words: the words compare as the texts do."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.arrays.texts import TextRows, Texts, text_words

BEGINNINGS = st.sampled_from([b"", b"customer#", b"urn:long/enough:for:three:words:", b"\0\0", b"x" * 140])
ENDS = st.binary(max_size=20) | st.text("ab\0", max_size=18).map(str.encode) | st.binary(min_size=70, max_size=90)


@st.composite
def texts_of_parts(draw: st.DrawFn) -> list[list[bytes | None]]:
    begins = draw(BEGINNINGS)
    value = st.none() | ENDS.map(lambda end: begins + end)
    return draw(st.lists(st.lists(value, min_size=1, max_size=6), min_size=1, max_size=3))


def rows_of(values: Sequence[bytes | None], before: Sequence[bytes] = ()) -> TextRows:
    """`values` as a slice of an array."""
    array = pa.array([*before, *values], pa.large_binary())
    return TextRows(Texts(array), len(before), len(array))


def compared(words: Sequence[np.ndarray], valid: Sequence[int]) -> list[list[int]]:
    tuples = [tuple(int(word[row]) for word in words) for row in valid]
    return [[(one > two) - (one < two) for two in tuples] for one in tuples]


@given(texts_of_parts(), st.booleans())
def test_words_compare_as_their_texts_do(parts: list[list[bytes | None]], descending: bool) -> None:
    flat = [value for part in parts for value in part]
    valid = [row for row, value in enumerate(flat) if value is not None]
    words = list(text_words([rows_of(part) for part in parts], descending=descending))
    sign = -1 if descending else 1
    wanted = [[sign * ((flat[a] > flat[b]) - (flat[a] < flat[b])) for b in valid] for a in valid]
    assert compared(words, valid) == wanted


@given(texts_of_parts(), st.booleans())
def test_neighbours_are_told_apart(parts: list[list[bytes | None]], descending: bool) -> None:
    for values in parts:
        after, equal = np.zeros(len(values) - 1, np.bool_), np.ones(len(values) - 1, np.bool_)
        for later, same in Texts(pa.array(values, pa.large_binary())).neighbours(descending=descending):
            after |= equal & later
            equal &= same
        for row, (one, two) in enumerate(pairwise(values)):
            if one is not None and two is not None:
                assert (after[row], equal[row]) == ((one < two) if descending else (one > two), one == two)


@given(texts_of_parts())
def test_nulls_have_the_same_words(parts: list[list[bytes | None]]) -> None:
    words = list(text_words([rows_of(part) for part in parts], descending=False))
    nulls = [row for row, value in enumerate(value for part in parts for value in part) if value is None]
    assert len({tuple(int(word[row]) for word in words) for row in nulls}) <= 1


def test_rows_of_a_part_are_read_where_they_lie() -> None:
    [word] = text_words([rows_of([b"b", b"a"], before=[b"c", b"ccc"]), rows_of([b"ab"])], descending=False)
    assert np.argsort(word).tolist() == [1, 2, 0]


def test_what_texts_begin_with_takes_no_words() -> None:
    values = [b"a rather long beginning: %06d" % i for i in (1, 7, 123_456)]
    assert len(list(text_words([rows_of(values)], descending=False))) == 1


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9])
def test_the_last_bytes_of_a_buffer_are_read_and_no_further(size: int) -> None:
    values = [b"", b"\xff" * size]
    buffers = [None, pa.py_buffer(np.array([0, 0, size])), pa.py_buffer(values[1])]
    array = pa.Array.from_buffers(pa.large_binary(), 2, buffers)
    words = list(text_words([TextRows(Texts(array), 0, 2)], descending=False))
    assert compared(words, [0, 1])[0][1] == (-1 if size else 0)
