"""The columns of batches, and what becomes of rows on the way to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from ...proto.errors import InvalidRequest
from ..batch_columns import Arrays, Form, dense_forms, forms
from ..loader_arguments import check_weight
from ..packing import POSITION, SEGMENT, Pack
from ..sources.training_splits import ROW, SPLIT
from .row_gathering import Values

Columns: TypeAlias = tuple[Values, ...]


class SplitRows(NamedTuple):
    """Rows of a split's result, from row `first` on."""

    split: int
    first: int
    batches: Sequence[pa.RecordBatch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of batches, and what becomes of rows on the way to them.

    By the column `weight`, rows are repeated or left out. `provenance` has the forms of the number of each row's split
    and of its row in the split's result, if batches have them. With `pack`, batches have the
    columns of `packed` instead.
    """

    schema: pa.Schema
    forms: tuple[Form, ...]
    provenance: tuple[Form, ...] = ()
    weight: str | None = None
    seed: int = 0
    pack: Pack | None = None
    packed: tuple[Form, ...] = ()

    def columns(self, splits: Sequence[SplitRows]) -> list[list[Values]]:
        """The columns of the rows of these splits, in the parts in which they were read."""
        batches = [batch for split in splits for batch in split.batches]
        columns = [
            form.parts([batch.column(form.name) for batch in batches], self.schema.field(form.name).type)
            for form in self.forms
        ]
        if self.provenance:
            counts = [sum(batch.num_rows for batch in split.batches) for split in splits]
            firsts = [split.first for split in splits]
            columns.append([np.repeat(np.array([split.split for split in splits], np.int64), counts)])
            columns.append(
                [np.concatenate([np.arange(first, first + n) for first, n in zip(firsts, counts, strict=True)])]
            )
        return columns

    def delivered(self, columns: Columns) -> dict[str, object]:
        return {form.name: form.delivered(column) for form, column in zip(self._shown(), columns, strict=True)}

    def names_of_arrays(self) -> tuple[str, ...] | None:
        """The columns' names if all columns are delivered as they are; None if one is not."""
        forms = self._shown()
        return tuple(form.name for form in forms) if all(form.is_array for form in forms) else None

    @property
    def tells_rows_apart(self) -> bool:
        """True if a row's split, or the row itself, decides about what batches have of it."""
        return self.weight is not None or self.pack is not None or bool(self.provenance)

    def _shown(self) -> tuple[Form, ...]:
        return self.packed or (*self.forms, *self.provenance)


def layout_of(
    schema: pa.Schema,
    *,
    columns: Sequence[str] | None,
    shapes: Mapping[str, Sequence[int]],
    arrays: Arrays,
    pin: bool,
    provenance: bool,
    weight: str | None,
    seed: int,
    pack: Pack | None,
) -> Layout:
    """The layout of batches of a result. Raises `InvalidRequest` if it lacks a column, or has one of another type."""
    check_weight(weight, schema)
    twice = {SPLIT, ROW} & set(schema.names) if provenance else set()
    if twice:
        raise InvalidRequest(
            f"the result has columns of its own called {', '.join(sorted(twice))}: leave provenance out",
            reason="SAME_COLUMN_NAMES",
        )
    chosen = columns if pack is None else (pack.column,)
    own_forms = partial(dense_forms, arrays=arrays, pin=pin)
    return Layout(
        schema=schema,
        forms=forms(schema, chosen, shapes, arrays, pin=pin),
        provenance=own_forms((SPLIT, ROW)) if provenance else (),
        weight=weight,
        seed=seed,
        pack=pack,
        packed=() if pack is None else own_forms((pack.column, SEGMENT, POSITION)),
    )
