"""The part of a join's condition that is not about keys. DuckDB evaluates it for candidate pairs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...proto.errors import InternalError
from ..arrays.layout import Flags
from ..core.batches import batch_of
from ..core.blocks import BLOCK_ROWS
from ..core.streams import BatchStream
from ..duckdb.fragment import Fragment
from ..duckdb.instances import Instance
from ..duckdb.statement_inputs import StreamSource
from .pieces import Rows, number_of, picked

_PAIRS = "pairs"
_MASK = pa.schema([("matches", pa.bool_())])


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCondition:
    """A condition in SQL over columns c0, c1, ... of the left side, then of the right side. A pair for which it is null
    does not match. `reads` are the positions of the columns that it reads.
    """

    sql: str
    reads: frozenset[int]


class PairFilter:
    """A condition that is planned once and evaluated for each batch of candidate pairs."""

    def __init__(
        self, condition: PairCondition, left: pa.Schema, right: pa.Schema, instance: Instance, plan_path: str
    ) -> None:
        fields = [*left, *right]
        wrong = sorted(i for i in condition.reads if i not in range(len(fields)))
        if wrong:
            raise InternalError(f"{plan_path}: the join's condition reads columns {wrong} of {len(fields)}")
        unread = pa.field("", pa.int8())
        self._schema = pa.schema([field if i in condition.reads else unread for i, field in enumerate(fields)])
        self._left = frozenset(i for i in condition.reads if i < len(left))
        self._right = frozenset(i - len(left) for i in condition.reads if i >= len(left))
        self._fragment = Fragment(
            f"SELECT coalesce({condition.sql}, false) FROM {_PAIRS}",
            schema=_MASK,
            instance=instance,
            streams=[StreamSource(relation=_PAIRS, schema=self._schema, size_class=BLOCK_ROWS)],
            plan_path=plan_path,
        )

    def matches(self, left: pa.RecordBatch, left_rows: Rows, right: pa.RecordBatch, right_rows: Rows) -> Flags:
        """True for each of these pairs that matches."""
        count = number_of(left_rows)
        columns = [*_read(left, left_rows, self._left, count), *_read(right, right_rows, self._right, count)]
        candidates = batch_of(columns, count, self._schema)
        with closing(BatchStream(self._schema, [candidates])) as stream:
            masks = [batch.column(0).to_numpy(zero_copy_only=False) for batch in self._fragment.run([stream])]
        return np.concatenate(masks) if masks else np.zeros(0, dtype=np.bool_)

    def interrupt(self) -> None:
        self._fragment.interrupt()

    def close(self) -> None:
        self._fragment.close()


def _read(batch: pa.RecordBatch, rows: Rows, wanted: frozenset[int], count: int) -> Sequence[pa.Array]:
    """The values of the wanted columns. The other columns are placeholders without values."""
    columns = iter(picked(batch.select(sorted(wanted)), rows))
    return [next(columns) if i in wanted else pa.nulls(count, pa.int8()) for i in range(batch.num_columns)]
