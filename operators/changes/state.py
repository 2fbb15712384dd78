"""What an arrangement looks like in a checkpoint: its runs, one after the other, as one table."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ...proto.errors import ExecutionError
from ..operator import StateReader, StateWriter
from .arrangement import Arrangement
from .change import ManyRounds, Numbers
from .rows import Rows

VERSION: Final = 1


def save_arrangement(state: StateWriter, name: str, arrangement: Arrangement, schema: pa.Schema) -> None:
    """Write it under `name`: the columns of its rows by their place, its numbers, its rounds."""
    tables = [_table(run.rows, run.weights, run.rounds, schema) for run in arrangement.runs]
    if not tables:
        nothing = arrangement.contents()
        tables = [_table(nothing.rows, nothing.weights, nothing.rounds, schema)]
    state.write(name, VERSION, pa.concat_tables(tables))


def load_arrangement(state: StateReader, name: str, arrangement: Arrangement, schema: pa.Schema) -> None:
    """Take what `save_arrangement` wrote into an arrangement of the same form that is empty."""
    version, table = state.read(name)
    if version != VERSION:
        raise ExecutionError(
            f"the checkpoint's {name!r} has format version {version}; this build reads version {VERSION}",
            reason="CHECKPOINT_VERSION",
        )
    arrays = [table.column(at).combine_chunks() for at in range(table.num_columns)]
    numbers = [array.to_numpy(zero_copy_only=False) for array in arrays[len(schema) :]]
    width = sum(1 for field in table.schema.names if field.startswith("w"))
    weights = numbers[0] if width == 1 else np.stack(numbers[:width], axis=1)
    rows = Rows.of_arrays([_one(array) for array in arrays[: len(schema)]], table.num_rows)
    arrangement.insert_numbers(rows, weights, tuple(numbers[width:]))


def _table(rows: Rows, weights: Numbers, rounds: ManyRounds, schema: pa.Schema) -> pa.Table:
    columns = {f"c{at}": array for at, array in enumerate(rows.to_arrays(schema.types))}
    matrix = weights if weights.ndim > 1 else weights[:, np.newaxis]
    columns |= {f"w{at}": pa.array(matrix[:, at]) for at in range(matrix.shape[1])}
    columns |= {f"r{at}": pa.array(numbers) for at, numbers in enumerate(rounds)}
    return pa.table(columns)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
