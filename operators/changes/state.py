"""What an arrangement looks like in a checkpoint: its runs, which never change, are the parts of a table."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from ...proto.errors import CheckpointError
from ..operator import StateReader, StateWriter
from .arrangement import Arrangement
from .consolidate import Entries
from .evaluator import whole
from .held_state import HeldState
from .rows import Rows

VERSION: Final = 1


def save_arrangement(
    state: StateWriter, name: str, arrangement: Arrangement, schema: pa.Schema, version: int = VERSION
) -> None:
    """Write it under `name`, a part for each run: the columns of its rows by their place, its numbers, its rounds. An
    operator whose numbers have come to mean something else has a `version` of its own.
    """
    state.write_parts(name, version, arrangement.runs, lambda run: _table(run, schema))


def load_arrangement(
    state: StateReader, name: str, arrangement: Arrangement, schema: pa.Schema, version: int = VERSION
) -> None:
    """Take what `save_arrangement` wrote into an arrangement of the same form that is empty. It gets the same runs."""
    if isinstance(state, HeldState):
        for run in state.runs(name):
            arrangement.insert_entries(run)
        return
    found, tables = state.read_parts(name)
    check_version(name, found, version)
    for table in tables:
        if table.schema.types[: len(schema)] != schema.types:
            raise CheckpointError(
                f"the checkpoint's {name!r} has columns {table.schema.types[: len(schema)]}, this build keeps "
                f"{schema.types} there; restore it with the version of Tidegate that took it",
                reason="CHECKPOINT_OTHER_STATE",
            )
        arrays = list(map(whole, table.columns))
        numbers = [array.to_numpy(zero_copy_only=False) for array in arrays[len(schema) :]]
        width = sum(1 for field in table.schema.names if field.startswith("w"))
        weights = numbers[0] if width == 1 else np.stack(numbers[:width], axis=1)
        rows = Rows.of_arrays(arrays[: len(schema)], table.num_rows)
        arrangement.insert_numbers(rows, weights, tuple(numbers[width:]))


def check_version(name: str, found: int, known: int) -> None:
    """CheckpointError unless the state called `name` is in the format that this build reads."""
    if found != known:
        raise CheckpointError(
            f"the checkpoint's {name!r} has format version {found}, and this build reads version {known}: restore it "
            "with the version of Tidegate that took it",
            reason="CHECKPOINT_VERSION",
        )


def _table(run: Entries, schema: pa.Schema) -> pa.Table:
    columns = {f"c{at}": array for at, array in enumerate(run.rows.to_arrays(schema.types))}
    matrix = run.weights if run.weights.ndim > 1 else run.weights[:, np.newaxis]
    columns |= {f"w{at}": pa.array(matrix[:, at]) for at in range(matrix.shape[1])}
    columns |= {f"r{at}": pa.array(numbers) for at, numbers in enumerate(run.rounds)}
    return pa.table(columns)
