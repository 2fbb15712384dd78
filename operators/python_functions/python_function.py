"""A function of statements that is in Python: its name, its types, and what computes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

import pyarrow as pa

from .pattern_search import Ask


@dataclass(frozen=True, slots=True)
class PythonFunction:
    """A function of rows. `compute` gets a list of values for each parameter, null as None, and a function that raises
    an error once the statement has been interrupted. It raises `ValueError` for what the user has to mend.

    With `asks` it gets Arrow columns in place of the lists, and a function that runs a SELECT over rows on the instance
    of the statement. It may raise that function's errors.
    """

    name: str
    parameters: tuple[str, ...]
    result: str
    compute: Callable[..., pa.Array]
    asks: bool = False

    def over(self, columns: tuple[pa.ChunkedArray, ...], check: Callable[[], None], ask: Ask) -> pa.Array:
        if self.asks:
            return self.compute(*columns, check, ask)
        values: list[list[Any]] = [column.to_pylist() for column in columns]
        return self.compute(*values, check)

    def callable(self, compute: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
        """`compute`, with a signature from which DuckDB reads the number of parameters."""

        def call(*columns: pa.ChunkedArray) -> pa.Array:
            return compute(*columns)

        parameters = [Parameter(f"c{i}", Parameter.POSITIONAL_ONLY) for i in range(len(self.parameters))]
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return call
