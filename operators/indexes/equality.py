"""Equality of keys, as in a join's `=`: -0.0 equals 0.0, and NaN equals NaN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

_Booleans = npt.NDArray[np.bool_]


def stored(array: pa.Array) -> pa.Array:
    """The storage values of an extension type, which Arrow's kernels take."""
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def equal_keys(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> _Booleans:
    """True for each row whose keys are equal. There is at least one column; the types are pairwise the same, and no
    column has a null.
    """
    same, *others = [_equal(stored(a), stored(b)) for a, b in zip(left, right, strict=True)]
    for other in others:
        same &= other
    return same


def _equal(left: pa.Array, right: pa.Array) -> _Booleans:
    equal: _Booleans = pc.equal(left, right).to_numpy(zero_copy_only=False)
    if not kinds.is_floating(left.type) or equal.all():
        return equal
    both_nan: _Booleans = pc.and_(pc.is_nan(left), pc.is_nan(right)).to_numpy(zero_copy_only=False)
    return equal | both_nan
