"""OnlyOne: pairs of a join in which each left row may have one match at most.

The operator passes pairs on; an epoch that ends with more than one match for a left row is an error. Confluent. State:
for each left row the number of its copies, and of its pairs.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from ...proto.arrow.shown_values import shown_row
from ...proto.errors import ExecutionError
from .change_operator import ChangeOperator, Kept
from .kept.arrangement import Arrangement
from .kept.matching_entries import MatchingEntries
from .kept.present import sums_at
from .values.change import Change
from .values.rows import Rows


class OnlyOne(ChangeOperator):
    """The operator. Input 0 has pairs, whose first columns are the left row's; input 1 has all left rows."""

    def __init__(self, schema: pa.Schema, left: pa.Schema, *, plan_path: str, depth: int = 0) -> None:
        self.schema = schema
        self._left = left
        self._plan_path = plan_path
        self._counts = Arrangement(left.types, range(len(left)), depth=depth, width=2)
        self._touched: list[Rows] = []

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        if not len(change):
            return ()
        rows = change.rows.select(range(len(self._left)))
        numbers = np.zeros((len(change), 2), dtype=np.int64)
        numbers[:, port] = change.weights
        self._counts.insert_numbers(rows, numbers, change.rounds)
        self._touched.append(rows)
        return () if port else (change,)

    def settle(self) -> None:
        if not self._touched:
            return
        rows, self._touched = Rows.scattered(self._touched) or Rows.concat(self._touched), []
        matches = self._counts.find(rows, rows=False)
        sums = sums_at(MatchingEntries(matches.asked, matches.rows, matches.weights, ()), (), len(rows))
        many = np.flatnonzero(sums[:, 0] > sums[:, 1])
        if len(many):
            row = rows.take(many[:1]).to_arrays(self._left.types)
            raise ExecutionError(
                f"{self._plan_path}: the row {shown_row([value[0] for value in row])} has more than one match, "
                "and must have at most one",
                reason="MORE_THAN_ONE_ROW",
            )

    @property
    def nbytes(self) -> int:
        return super().nbytes + sum(rows.nbytes for rows in self._touched)

    def kept(self) -> Iterable[Kept]:
        yield Kept("counts", self._counts, self._left)
