"""MergeJoin: two inputs that are sorted by their keys, joined as they stream by.

Order: by key; within a key the left rows' order, then the right rows' order. A row without a match comes at its key's
place: a left row among the left rows, a right row after all left rows of its key. Types that keep rows of the right
side alone, and right single, follow the right rows' order. Nulls: a null key matches nothing under EQUAL, and another
null under NOT_DISTINCT. Empty input: no rows, or the other side's rows without a match.

Memory: a batch of each input and the rows of one key, which go to a file beyond a limit. Each input is read one batch
at a time; the next batch is read when no row of the last one waits. An input is closed as soon as the keys say that no
row of it can come out any more. Barrier: nothing is kept. An input that is not sorted is an error that names both rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from ..proto.errors import InternalError
from .arrays.casts import plain
from .arrays.ordering import Order, Ordering, obstacle
from .core.blocks import gathered
from .core.key_rows import Holding
from .core.operator import Operator, Stream
from .core.sizes import BATCH_BYTES
from .duckdb.instances import Instance
from .merging.kinds import MEANINGS, Comparison, MergeJoinType
from .merging.matcher import Matcher
from .merging.merge import Merge
from .merging.pair_filter import PairCondition, PairFilter
from .merging.pieces import Pieces
from .merging.sorted_input import SortedInput

_FEW_ROWS: Final = 4_096
"""Batches of fewer rows wait for others, and for the end at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinKey:
    """A key: a column of each side, by which both sides are sorted, and the comparison."""

    left: int
    right: int
    descending: bool = False
    nulls_first: bool = False
    comparison: Comparison = Comparison.EQUAL


class MergeJoin(Operator):
    """The operator. `run` takes the left and the right stream. An `instance` evaluates the `condition`, if there is
    one.

    `schema` has the left side's columns and then the right side's; for semi and anti joins, one side's.
    """

    def __init__(
        self,
        *,
        left: pa.Schema,
        right: pa.Schema,
        keys: Sequence[JoinKey],
        type: MergeJoinType,  # noqa: A002 - the name that it has everywhere
        schema: pa.Schema,
        holding: Holding,
        condition: PairCondition | None = None,
        instance: Instance | None = None,
        plan_path: str = "",
    ) -> None:
        self.schema = schema
        self._meaning = MEANINGS[type]
        self._plan_path = plan_path
        self._holding = holding
        self._strict_keys = tuple(i for i, key in enumerate(keys) if key.comparison is Comparison.EQUAL)
        self._check_keys(left, right, keys)
        self._left = Ordering([_order(key, key.left) for key in keys])
        self._right = Ordering([_order(key, key.right) for key in keys])
        probe, held = (right, left) if self._meaning.probe_right else (left, right)
        self._check_schema(probe, held)
        self._condition: PairFilter | None = None
        if condition is not None:
            if instance is None:
                raise InternalError(f"{plan_path}: a merge join with a condition needs a DuckDB instance")
            self._condition = PairFilter(condition, left, right, instance, plan_path)
        pieces = Pieces(self._meaning, schema, probe, held)
        self._matcher = Matcher(self._meaning, pieces, self._condition, plan_path)

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        if len(inputs) != 2:
            raise InternalError(f"{self._plan_path}: a merge join takes two inputs, not {len(inputs)}")
        self._interrupted = False
        return self._run(inputs)

    def interrupt(self) -> None:
        super().interrupt()
        if self._condition is not None:
            self._condition.interrupt()

    def close(self) -> None:
        if self._condition is not None:
            self._condition.close()

    def _run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        try:
            left = SortedInput("left", inputs[0], self._left, self._strict_keys, self._plan_path)
            right = SortedInput("right", inputs[1], self._right, self._strict_keys, self._plan_path)
            probe, held = (right, left) if self._meaning.probe_right else (left, right)
            merge = Merge(probe, held, self._matcher, self._holding, self._strict_keys, check=self._stop_if_interrupted)
            yield from gathered(merge.batches(), _FEW_ROWS, BATCH_BYTES)
        finally:
            for stream in inputs:
                stream.close()

    def _check_keys(self, left: pa.Schema, right: pa.Schema, keys: Sequence[JoinKey]) -> None:
        if not keys:
            raise InternalError(f"{self._plan_path}: a merge join needs a key")
        for key in keys:
            one, two = left.field(key.left), right.field(key.right)
            why = obstacle(one.type)
            if why is not None:
                raise InternalError(f"{self._plan_path}: {one.name!r} cannot be a key of a merge join: {why}")
            if not plain(one.type).equals(plain(two.type)):
                raise InternalError(
                    f"{self._plan_path}: the keys {one.name!r} and {two.name!r} are {one.type} and {two.type}; a merge "
                    "join compares keys of one type"
                )

    def _check_schema(self, probe: pa.Schema, held: pa.Schema) -> None:
        meaning = self._meaning
        expected = [(field.type, meaning.held_alone) for field in probe]
        if meaning.pairs:
            others = [(field.type, meaning.probe_alone) for field in held]
            expected = [*others, *expected] if meaning.probe_right else [*expected, *others]
        if [type_ for type_, _ in expected] != self.schema.types:
            wanted = [str(type_) for type_, _ in expected]
            raise InternalError(f"{self._plan_path}: the merge join gives columns of types {wanted}, not {self.schema}")
        for field, (_, padded) in zip(self.schema, expected, strict=True):
            if not _can_be_picked(field.type):
                raise InternalError(
                    f"{self._plan_path}: rows of {field.name!r}, which is {field.type}, cannot be picked"
                )
            if padded and not field.nullable:
                raise InternalError(
                    f"{self._plan_path}: {field.name!r} is null where there is no match, so not required"
                )


def _order(key: JoinKey, column: int) -> Order:
    return Order(column=column, descending=key.descending, nulls_first=key.nulls_first)


def _can_be_picked(type_: pa.DataType) -> bool:
    """True where Arrow can take some rows of such a column (it cannot take from views)."""
    try:
        pa.nulls(0, type_).take(pa.array([], pa.int64()))
    except pa.ArrowNotImplementedError:
        return False
    return True
