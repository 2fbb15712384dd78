"""Regroup: computations over all rows of a key, repeated for the keys that are touched.

Regroup is for computations without a running form: sums of floats, which depend on the order of additions, medians,
lists, windows. The rows of a key are handed over in canonical order, with all copies. Confluent. State: all rows, by
their key, and the answers that were given out. A change costs as much as all rows of the keys that it touches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from ...proto.errors import ExecutionError
from .event_time.floor import Floor
from .kept.arrangement import Arrangement
from .kept.present import present
from .keyed_operator import Answer, KeyedRows
from .values.change import Rounds
from .values.evaluator import NUMBER, Evaluator, RowsFailed, first_failing
from .values.order_codes import canonical_orders
from .values.portions import TOGETHER, portions_with_room
from .values.rows import Rows
from .values.value_columns import Index

_COPIES: Final = 2
"""The copies of a key's rows that are in memory while an answer is made from them, without the answer."""


class Regroup(KeyedRows):
    """The operator. `evaluate` takes rows, then the number of the key of each row. It returns the columns of `schema`
    behind the key's, then the number of the key that each new row is for. `evaluate_nothing` returns the answer to no
    rows, for an operator without a key that has one.
    """

    def __init__(
        self,
        input_schema: pa.Schema,
        key: Sequence[int],
        schema: pa.Schema,
        evaluate: Evaluator,
        *,
        plan_path: str,
        evaluate_nothing: Evaluator | None = None,
        depth: int = 0,
        always: bool = False,
        floor: Floor | None = None,
    ) -> None:
        rows = Arrangement(input_schema.types, key, depth=depth)
        super().__init__(input_schema, key, schema, rows, depth=depth, always=always, floor=floor)
        self._plan_path = plan_path
        self._evaluate = evaluate
        self._evaluate_nothing = evaluate_nothing
        self._read = input_schema.append(NUMBER)
        self._orders = canonical_orders(len(input_schema))

    def _portions(self, keys: Rows) -> Iterable[Rows]:
        if self._rows.nbytes <= TOGETHER:
            return (keys,)
        return map(keys.take, portions_with_room(self._rows.sizes(keys), _COPIES))

    def _answer(self, keys: Rows, rounds: Rounds) -> Answer:
        matches = self._rows.chosen(keys)
        history = (matches.asked, matches.rounds)
        now = present(matches, rounds, self._orders)
        del matches  # whose rows may be long
        rows, asked = now.with_copies(f"{self._plan_path}: Regroup")
        try:
            answers, of = self._evaluated(rows, asked)
        except RowsFailed as error:
            schema = pa.schema([self._input_schema.field(column) for column in self._key])
            raise failed_key(error, keys, schema, rows, asked, self._evaluated) from error
        return Answer(of, answers, np.ones(len(of), dtype=np.int64), history)

    def _evaluated(self, rows: Rows, asked: Index) -> tuple[Rows, Index]:
        """The answers for keys' rows, and the key of each answer."""
        evaluate = self._evaluate
        if not len(rows) and self._evaluate_nothing is not None:
            evaluate = self._evaluate_nothing
        *columns, number = evaluate(rows.to_batch(self._read, pa.array(asked))).columns
        of = number.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
        return Rows.of_arrays(columns, len(of)), of


def failed_key(
    error: RowsFailed,
    keys: Rows,
    schema: pa.Schema,
    rows: Rows,
    asked: Index,
    evaluate: Callable[[Rows, Index], object],
) -> ExecutionError:
    """The error of the first key that fails. `asked` has the key of each row, ascending."""
    if not len(schema):
        return error

    def some(first: int, last: int) -> None:
        start, end = asked.searchsorted([first, last])
        evaluate(rows.take(np.arange(start, end)), asked[start:end])

    at, error = first_failing(len(keys), some, error)
    return ExecutionError(f"{error.message}, in the rows of the key {keys.described(schema, at)}", reason=error.reason)
