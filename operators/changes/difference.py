"""Difference: the rows of one input minus the rows of another, all of which the first one has. No state."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from .change_operator import ChangeOperator
from .values.change import Change


class Difference(ChangeOperator):
    """The operator. It gives the rows of input 0, and the rows of input 1 with opposite weights. The rows of input 1
    are known to be among those of input 0.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        return (change.negated() if port else change,)
