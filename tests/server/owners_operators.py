"""A module of an owner's, as `tidegate serve --operators` imports it."""

from __future__ import annotations

import atexit
import time
from collections.abc import Sequence

import pyarrow as pa

import tidegate


class Doubles:
    """Its rows, twice; a null in the first column is an error."""

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> list[pa.RecordBatch]:
        if any(batch["c0"].null_count for batch in batches):
            raise ValueError("a null among the keys")
        return [*batches, *batches]

    def done(self, channel: int) -> None:
        return None


class Sleeps:
    """Answers nothing, and cannot be interrupted."""

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> list[pa.RecordBatch]:
        print("asleep", flush=True)
        time.sleep(600)
        return []

    def done(self, channel: int) -> None:
        return None


def never(options: object, schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Keeps the thread that plans for minutes. Says when the interpreter is taken down under it."""
    atexit.register(print, "taken down", flush=True)
    print("planning", flush=True)
    time.sleep(600)
    return schemas[0]


OPERATORS = {
    "double": tidegate.user_operator(lambda options: Doubles()),
    "never": tidegate.user_operator(lambda options: Doubles(), schema=never),
    "sleep": tidegate.user_operator(lambda options: Sleeps()),
}
NO_MAPPING = 7
WRONG = {"double": Doubles}
