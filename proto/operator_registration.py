"""Operators that the service's owner registers. Plans name such operators, and bring no code of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pyarrow as pa

from .graph import ONLY_STREAM, Executor, Partition

Options: TypeAlias = Mapping[str, Any]
"""The options that a plan gives an operator: text, numbers, booleans, None, lists and mappings of these. Each call has
its own.
"""

Partitions: TypeAlias = Mapping[str, Partition]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserOperator:
    """An operator that plans may name.

    `make` returns a new executor for each channel and epoch. Columns of a plan have no names: the executor sees them as
    c0, c1, ... `schema` is the schema of the operator's rows: a schema, a function of the options and the streams'
    schemas, or None for the schema of the only stream. `partitions` takes the options and says which channels get which
    rows of each stream; without it the operator has one channel. `after` names, for a stream, the streams that must end
    before it is read. Change `version` whenever new code gives the same plan another meaning: the service then refuses
    cursors into results of the old code.

    >>> tidegate.user_operator(lambda options: Count(), version="2").version
    '2'
    """

    make: Callable[[Options], Executor]
    schema: pa.Schema | Callable[[Options, Sequence[pa.Schema]], pa.Schema] | None = None
    streams: tuple[str, ...] = (ONLY_STREAM,)
    partitions: Callable[[Options], Partitions] | None = None
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    version: str = ""


UserOperators: TypeAlias = Mapping[str, UserOperator]
