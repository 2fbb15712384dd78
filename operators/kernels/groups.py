"""Groups of the rows of a batch, in order of their first rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...proto.arrow.without_rows import no_rows
from ..arrays.layout import Places, arrow_positions
from ..arrays.reductions import Reduction, reduce
from ..core.batches import batch_of
from .kernel_expressions import Compute, Declined, Expression, column_of, compiled

_NARROW = np.iinfo(np.int16).max
_TAKE: Final = pc.get_function("take")
_UNCHECKED: Final = pc.TakeOptions(boundscheck=False)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Rows grouped by `keys`, with a column for each of `reductions`, whose columns are among `arguments`. Keys must
    be of types whose equal values have equal bits: no floats.
    """

    keys: tuple[Expression, ...]
    arguments: tuple[Expression, ...]
    reductions: tuple[Reduction, ...]
    schema: pa.Schema

    def compiled(self) -> GroupKernel:
        keys, arguments = ([compiled(expression) for expression in some] for some in (self.keys, self.arguments))
        return GroupKernel(keys, arguments, self.reductions, self.schema)


@dataclass(frozen=True, slots=True)
class Groups:
    """The groups of a batch. `order` puts the rows of a group together, in their own order. Groups begin at the
    positions `begins` of `order`, and have these `lengths`. `keys` has a column for each key and a row for each group.
    """

    order: Places
    begins: Places
    lengths: Places
    keys: Sequence[pa.Array]


class GroupKernel:
    def __init__(
        self,
        keys: Sequence[Compute],
        arguments: Sequence[Compute],
        reductions: Sequence[Reduction],
        schema: pa.Schema,
    ) -> None:
        self._keys = keys
        self._arguments = arguments
        self._reductions = reductions
        self._schema = schema
        self._names = [str(at) for at in range(len(arguments))]

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not rows.num_rows:
            return self._of_nothing()
        groups = _groups([column_of(key(rows), rows) for key in self._keys], rows.num_rows)
        order = arrow_positions(groups.order)
        arguments = [_TAKE.call([column_of(argument(rows), rows), order], _UNCHECKED) for argument in self._arguments]
        sorted_ = pa.RecordBatch.from_arrays(arguments, names=self._names)
        columns = list(groups.keys)
        for reduction, field in zip(self._reductions, list(self._schema)[len(columns) :], strict=True):
            reduced = reduce(reduction, sorted_, groups.begins, groups.lengths, field.type)
            if reduced is None:
                raise Declined
            columns.append(reduced)
        return batch_of(columns, len(groups.lengths), self._schema)

    def _of_nothing(self) -> pa.RecordBatch:
        if not self._keys:
            raise Declined  # SQL's result for no rows
        return no_rows(self._schema)


def _groups(keys: Sequence[pa.Array], rows: int) -> Groups:
    if not keys:
        return Groups(np.arange(rows), np.zeros(1, np.int64), np.array([rows]), ())
    numbers, count, values = _numbered(keys[0])
    for key in keys[1:]:
        mine, distinct, _ = _numbered(key)
        pairs = pa.array(numbers.astype(np.int64) * distinct + mine)
        numbers, count, _ = _numbered(pairs)
    lengths = np.bincount(numbers, minlength=count)
    begins = np.cumsum(lengths) - lengths
    # Few small numbers are sorted several times as fast.
    order = np.argsort(numbers.astype(np.int16) if count <= _NARROW else numbers, kind="stable")
    if len(keys) == 1:
        return Groups(order, begins, lengths, (values,))
    first = arrow_positions(order[begins])
    return Groups(order, begins, lengths, [_TAKE.call([key, first], _UNCHECKED) for key in keys])


def _numbered(values: pa.Array) -> tuple[Places, int, pa.Array]:
    """A number for each value (equal values have the same one, counted in order of their first row), the count of
    distinct values, and these values.
    """
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(), len(encoded.dictionary), encoded.dictionary
