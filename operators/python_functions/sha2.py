"""The hashes of the SHA-2 family that DuckDB does not have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

SHA2: Final = "sha2"
"""The function in SQL: `sha2(algorithm, bytes)` gives bytes."""

_ALGORITHMS: Final = {"sha224": hashlib.sha224, "sha384": hashlib.sha384, "sha512": hashlib.sha512}


def sha2(algorithms: Sequence[str], values: Sequence[bytes | None], check: Callable[[], None]) -> pa.Array:
    """The hashes, one for each row. `check` is called before each value, to end what has been interrupted."""
    return pa.array(
        [_hash(algorithm, value, check) for algorithm, value in zip(algorithms, values, strict=True)], pa.binary()
    )


def _hash(algorithm: str, value: bytes | None, check: Callable[[], None]) -> bytes | None:
    check()
    return None if value is None else _ALGORITHMS[algorithm](value).digest()
