"""Operators of the service's owner, as the service is given them: plans name them, and bring no code of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from .graph import ONLY_STREAM, Executor, Partition

Options: TypeAlias = Mapping[str, Any]
"""What a plan tells an operator: text, numbers, booleans, None, lists and mappings of these. Each call has its own."""

Partitions: TypeAlias = Mapping[str, Partition]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserOperator:
    """An operator that plans may name.

    `make` gives a new executor for each channel and epoch. Columns of a plan have no names: the executor sees them as
    c0, c1, ... `schema` is that of its rows: one, a function of the options and the streams' schemas, or that of its
    only stream. `partitions` says, given the options, which channels get which rows of each stream; without it the
    operator has one channel. `after` has a stream read once others have ended. Where the code changes so that the same
    plan means something else, `version` should too: a place in the results of the old one is then refused.
    """

    make: Callable[[Options], Executor]
    schema: pa.Schema | Callable[[Options, Sequence[pa.Schema]], pa.Schema] | None = None
    streams: tuple[str, ...] = (ONLY_STREAM,)
    partitions: Callable[[Options], Partitions] | None = None
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: str = ""


UserOperators: TypeAlias = Mapping[str, UserOperator]
