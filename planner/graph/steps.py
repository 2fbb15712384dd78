"""A graph's steps: its nodes once their schemas are known. Stock operations have become statements and merges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from ...operators.arrays.ordering import Order
from ...operators.core.quoting import identifier
from ...proto.graph import ExecutorNode, Input, MapNode, SourceNode, UnionNode

_COLLECTING: Final = re.compile(
    r"""\b(string_agg|group_concat|listagg|array_agg|list|array|histogram|histogram_exact)"?\s*\(""", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SqlStep:
    """A statement. `sql` is a SELECT over r0, r1, ..., the rows of its inputs, each with columns c0, c1, ...; `ordered`
    has the same rows in an order that does not depend on the joins. Each input is read once, or, if that is not sure,
    is `replayed`. `growth` is the number of bytes that the statement makes of a byte of a row's texts and lists, 0 if
    it makes none. `what` describes the step to people.
    """

    name: str
    inputs: tuple[Input, ...]
    sql: str
    replayed: tuple[bool, ...]
    schema: pa.Schema
    what: str
    channels: int = 1
    ordered: str | None = None
    growth: int = 0

    @property
    def collects(self) -> bool:
        """True where the text may call an aggregate that puts all values of a group into a text, a list or a map. A
        text that only looks so gives its statement less memory than it could have.
        """
        return _COLLECTING.search(self.sql) is not None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeStep:
    """The rows of all channels of `source`, merged in this order. Each channel sorts its own rows."""

    name: str
    source: str
    order: tuple[Order, ...]


Step: TypeAlias = SourceNode | MapNode | UnionNode | ExecutorNode | SqlStep | MergeStep


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OrderedSql:
    """The ordered form of a join, as a fragment has one: DuckDB builds a hash table for the join."""

    sql: str
    joins: tuple[str, ...]
    builds: bool | None = True


def relation(at: int) -> str:
    """The SQL name of a step's input number `at`."""
    return f"r{at:d}"


def over_inputs(statement: str, names: Sequence[str], schemas: Sequence[pa.Schema]) -> str:
    """A SELECT over relations of these names as a SELECT over `relation`s. It does not begin with WITH."""
    definitions = ", ".join(
        f"{identifier(name)}({', '.join(map(identifier, schema.names))}) AS NOT MATERIALIZED "
        f"(SELECT {', '.join(f'c{i:d}' for i in range(len(schema)))} FROM {relation(at)})"
        for at, (name, schema) in enumerate(zip(names, schemas, strict=True))
    )
    return f"SELECT * FROM (WITH {definitions} SELECT * FROM ({statement}\n))"
