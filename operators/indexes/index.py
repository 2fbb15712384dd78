"""The interface of an index to the join that probes it."""

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
    """The matches of a batch of keys: for each match the row number of its key in the batch, ascending, and the index's
    columns. The matches of one key come in the index's own, fixed order.
    """

    rows: RowNumbers
    columns: pa.RecordBatch


def is_every(rows: RowNumbers, count: int) -> bool:
    """True where these ascending row numbers are each of `count` rows once."""
    return len(rows) == count and not np.count_nonzero(rows[1:] <= rows[:-1])


class Index(ABC):
    """An index: rows that are found by their keys. Messages call it `name`.

    `key_types` are the types of the keys that it takes, `schema` has the columns that it gives. Several threads may
    call all methods but `close` at once.
    """

    name: str
    key_types: tuple[pa.DataType, ...]
    schema: pa.Schema
    lasting = True
    """False: opening the index again is quick and gives the same rows, so a task that is idle may close it."""

    @abstractmethod
    def lookup(self, keys: pa.RecordBatch) -> Matches:
        """All rows whose keys equal those of `keys`: columns of `key_types`, at least one row, without nulls.

        Equality is that of a join's `=`: -0.0 is 0.0, and NaN is NaN.
        """

    def retryable(self, error: Exception) -> bool:  # noqa: ARG002 - most errors are not
        """True where a look-up that failed with this error may succeed when it is made again."""
        return False

    def interrupt(self) -> None:
        """Make the look-ups in progress fail soon, where that can be done. The call must not block."""

    def close(self) -> None:
        """Release the index's resources, once the look-ups in progress have ended. A second call does nothing."""
