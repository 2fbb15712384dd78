"""Select: columns, in any order, any number of times. No state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from .change_operator import ChangeOperator
from .values.change import Change
from .values.rows import Rows


class Select(ChangeOperator):
    """The operator. It gives `columns` of the rows that it receives, nulls for None. It has any number of inputs, so
    that it is UNION ALL as well.
    """

    def __init__(self, schema: pa.Schema, columns: Sequence[int | None]) -> None:
        self.schema = schema
        self._columns = tuple(columns)
        types = {at: schema.field(at).type for at, column in enumerate(columns) if column is None}
        null_of = {type_: Rows.of_arrays([pa.nulls(1, type_)], 1).columns[0] for type_ in set(types.values())}
        self._nulls = {at: null_of[type_] for at, type_ in types.items()}

    def receive(self, port: int, change: Change) -> Iterable[Change]:  # noqa: ARG002 - inputs are alike
        nothing = np.zeros(len(change) if self._nulls else 0, dtype=np.int64)
        columns = [
            self._nulls[at].take(nothing) if column is None else change.rows.columns[column]
            for at, column in enumerate(self._columns)
        ]
        return (change.with_rows(Rows(columns, len(change))),)
