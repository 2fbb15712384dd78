"""Select: some of the columns, in any order, as often as wanted. No state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from .change import Change
from .operator import ChangeOperator


class Select(ChangeOperator):
    """The columns `columns` of what it receives; from any number of inputs, so that it is UNION ALL as well."""

    def __init__(self, schema: pa.Schema, columns: Sequence[int]) -> None:
        self.schema = schema
        self._columns = tuple(columns)

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - inputs are alike
        return (change.with_rows(change.rows.select(self._columns)),)
