"""A change column: the column of a split that says how often each row is inserted or deleted.

A change column holds weights (+1 inserts a row, -1 deletes one, n is n copies), or the words that table formats write
for changes. In a text file a weight is a whole number in digits.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ..arrays.casts import plain

WEIGHT: Final = "_weight"
"""The column of weights that a scan puts behind the plan's columns."""

WEIGHT_FIELD: Final = pa.field(WEIGHT, pa.int64(), nullable=False)

Weights: TypeAlias = npt.NDArray[np.int64]

WORDS: Final = {"insert": 1, "delete": -1, "update_preimage": -1, "update_postimage": 1}

_DIGITS: Final = r"^[+-]?[0-9]{1,18}$"


class BadChange(Exception):
    """The value at `row` is no weight and no word for a change."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(why)
        self.row = row


def tells_changes(type_: pa.DataType) -> bool:
    """True where a column of this type can be a change column."""
    kind = plain(type_)
    return bool(kinds.is_integer(kind) or kinds.is_string(kind))


def weights(array: pa.Array, *, digits: bool = False) -> Weights:
    """The rows' weights, from a column of a type that `tells_changes`. With `digits`, text may also be a number."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    elif kinds.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if array.null_count:
        raise BadChange(int(np.flatnonzero(_mask(array.is_null()))[0]), "is null")
    return _numbers(array) if kinds.is_integer(array.type) else _words(array.cast(pa.string()), digits=digits)


def _numbers(array: pa.Array) -> Weights:
    if kinds.is_uint64(array.type):
        beyond = np.flatnonzero(array.to_numpy() >= np.uint64(1 << 63))
        if len(beyond):
            row = int(beyond[0])
            raise BadChange(row, f"is {array[row].as_py()}, which is beyond 64 bits")
    weights: Weights = array.to_numpy().astype(np.int64)
    return weights


def _words(array: pa.Array, *, digits: bool) -> Weights:
    at = pc.index_in(array, value_set=pa.array(WORDS)).fill_null(-1).to_numpy(zero_copy_only=False)
    weights: Weights = np.array([*WORDS.values(), 0], dtype=np.int64)[at]
    others = np.flatnonzero(at < 0)
    if not len(others):
        return weights
    texts = array.take(pa.array(others))
    wrong = ~_mask(pc.match_substring_regex(texts, _DIGITS)) if digits else np.ones(len(others), dtype=np.bool_)
    if wrong.any():
        row = int(others[np.flatnonzero(wrong)[0]])
        known = ", ".join(WORDS) + (" or a whole number" if digits else "")
        raise BadChange(row, f"is {array[row].as_py()!r}, not {known}")
    weights[others] = pc.utf8_ltrim(texts, "+").cast(pa.int64()).to_numpy()
    return weights


def _mask(array: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return mask
