"""What an index is to the join that probes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

RowNumbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Matches:
    """What a batch of keys has found: for each match the number of its key's row in the batch, ascending, and the
    index's columns. The matches of one key come in the index's own, fixed order.
    """

    rows: RowNumbers
    columns: pa.RecordBatch


def is_every(rows: RowNumbers, count: int) -> bool:
    """Whether these ascending row numbers are each of `count` rows once."""
    return len(rows) == count and bool((rows[1:] > rows[:-1]).all())


class Index(ABC):
    """Rows that are found by their keys. `name` is what messages call it.

    `key_types` are the types of the keys it takes, `schema` the columns it gives. All methods but `close` may be
    called from several threads at once.
    """

    name: str
    key_types: tuple[pa.DataType, ...]
    schema: pa.Schema

    @abstractmethod
    def lookup(self, keys: pa.RecordBatch) -> Matches:
        """All rows whose keys equal those of `keys`: columns of `key_types`, at least one row, without nulls.

        Equal is what a join's `=` says: -0.0 is 0.0, and NaN is NaN.
        """

    def retryable(self, error: Exception) -> bool:  # noqa: ARG002 - what most errors are
        """Whether a look-up that failed of this may succeed when it is made again."""
        return False

    def interrupt(self) -> None:
        """Make the look-ups in progress fail soon, where that can be done. Must not block."""

    def close(self) -> None:
        """Give back what it holds, once the look-ups in progress have ended. More than once is harmless."""
