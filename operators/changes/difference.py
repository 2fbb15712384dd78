"""Difference: rows of one input, less those of another that are among them. No state."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from .change_operator import ChangeOperator
from .values.change import Change


class Difference(ChangeOperator):
    """The rows of input 0 and, with the opposite weights, those of input 1: what is left of rows whose others are
    known to be among them.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        return (change.negated() if port else change,)
