"""Loops as queries: what a loop's body is, in SQL that may read the loop like a table.

A plan is DataFusion's of each query, put together; the answer is DuckDB's to each query, round by round, as a loop
means it: `X(0) = nothing, X(k+1) = what enters + the body's answer`. They share the queries' text and nothing else.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import duckdb
import pyarrow as pa
from substrait.algebra_pb2 import Rel
from substrait.plan_pb2 import Plan

from tidegate.proto.encoding.wire_format import varint

from ..continuous.histories import Changed, Row, multiset, planned, table
from ..duckdb_oracle import oracle
from ..messages import messages

NUMBERS: Final = pa.schema([("a", pa.int64()), ("b", pa.int64())])
"""What goes round in a loop of a test, two columns, where it does not say otherwise."""
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "edges": NUMBERS.append(pa.field("c", pa.int64())),
    "more": NUMBERS,
    "seeds": NUMBERS,
}
ENDLESS: Final = 500
"""Rounds after which a loop of a test is taken to have no end."""
_PREFIX: Final = "type.googleapis.com/flowtide."
_WIDTH: Final = b"\x10\x02"
"""Field 2 of a reference: it has two columns."""


@dataclass(frozen=True, slots=True)
class Looped:
    """A loop; one that has `rounds` returns what it has then, unless it `fails`."""

    body: str
    entering: str | None = None
    rounds: int | None = None
    fails: bool = False
    columns: pa.Schema = NUMBERS


@dataclass(frozen=True, slots=True)
class Query:
    """A query over sources and loops. A loop is in the body of another one where that one's body reads it."""

    loops: Mapping[str, Looped]
    sql: str = "select a, b from x"

    def plan(self, schemas: Mapping[str, pa.Schema] = SCHEMAS) -> bytes:
        return _Planning(self.loops, schemas).plan(self.sql).SerializeToString()

    def answer(self, sources: Mapping[str, Sequence[Row]]) -> Counter[Row]:
        """The rows of the result over these rows of the sources."""
        tables = {name: table(rows, SCHEMAS[name]) for name, rows in sources.items()}
        with oracle() as connection:
            return _Answering(self.loops, connection).rows(self.sql, tables)


@dataclass(slots=True)
class _Planning:
    loops: Mapping[str, Looped]
    sources: Mapping[str, pa.Schema]
    extensions: list[Any] = field(default_factory=list)

    def plan(self, sql: str) -> Plan:
        whole = Plan()
        whole.ParseFromString(planned(sql, self._schemas()))
        root = whole.relations[0].root
        root.input.CopyFrom(self._relation(sql, ()))
        del whole.extensions[:]
        whole.extensions.extend(self.extensions)
        return whole

    def _schemas(self) -> Mapping[str, pa.Schema]:
        return {**self.sources, **{name: loop.columns for name, loop in self.loops.items()}}

    def _relation(self, sql: str, around: tuple[str, ...]) -> Rel:
        """The query's relation, with the loops in their places; functions are numbered over all queries."""
        part = Plan()
        part.ParseFromString(planned(sql, self._schemas()))
        first = len(self.extensions)
        anchors = {}
        for at, extension in enumerate(part.extensions):
            anchors[extension.extension_function.function_anchor] = first + at
            extension.extension_function.function_anchor = first + at
        self.extensions.extend(part.extensions)
        relation = part.relations[0].root.input
        for message in list(messages(relation)):
            if "function_reference" in message.DESCRIPTOR.fields_by_name:
                message.function_reference = anchors[message.function_reference]
            elif isinstance(message, Rel) and message.WhichOneof("rel_type") == "read":
                self._read(message, around)
        return relation

    def _read(self, relation: Rel, around: tuple[str, ...]) -> None:
        (name,) = relation.read.named_table.names
        if name not in self.loops:
            return
        assert not relation.read.HasField("filter")
        columns = [item.field for item in relation.read.projection.select.struct_items]
        relation.Clear()
        if name in around:
            leaf = relation.extension_leaf
            leaf.common.emit.output_mapping.extend(columns)
            leaf.detail.type_url = f"{_PREFIX}IterationReferenceReadRelation"
            leaf.detail.value = _named(name) + _WIDTH
            return
        loop = self.loops[name]
        multi = relation.extension_multi
        multi.common.emit.output_mapping.extend(columns)
        multi.inputs.append(self._relation(loop.body, (*around, name)))
        if loop.entering is not None:
            multi.inputs.append(self._relation(loop.entering, around))
        multi.detail.type_url = f"{_PREFIX}IterationRelation"
        multi.detail.value = _named(name) + _limit(loop)


def _named(name: str) -> bytes:
    return b"\x0a" + bytes([len(name)]) + name.encode()


def _limit(loop: Looped) -> bytes:
    """Fields 16 and 17: at most so many rounds, and what there is then."""
    if loop.rounds is None:
        return b""
    return b"\x80\x01" + varint(loop.rounds) + (b"" if loop.fails else b"\x88\x01\x02")


@dataclass(slots=True)
class _Answering:
    loops: Mapping[str, Looped]
    connection: duckdb.DuckDBPyConnection

    def rows(self, sql: str, tables: Mapping[str, pa.Table]) -> Counter[Row]:
        read = set(re.findall(r"\w+", sql))
        for name in sorted(read & (self.loops.keys() - tables.keys())):
            tables = {**tables, name: self._fixpoint(name, tables)}
        for name in read & tables.keys():
            self.connection.register(name, tables[name])
        return multiset(self.connection.execute(sql).fetchall())

    def _fixpoint(self, name: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        loop = self.loops[name]
        entering = Counter[Row]() if loop.entering is None else self.rows(loop.entering, tables)
        current = Counter[Row]()
        for _ in range(ENDLESS if loop.rounds is None else loop.rounds):
            there = table(list(current.elements()), loop.columns)
            following = entering + self.rows(loop.body, {**tables, name: there})
            if following == current:
                return there
            current = following
        assert loop.rounds is not None, f"loop {name} of a test does not end"
        return table(list(current.elements()), loop.columns)


_STEP: Final = "select x.a, e.b from x join edges e on x.b = e.a"
_REACHED: Final = f"select distinct a, b from (select a, b from seeds union all {_STEP})"
_CLOSURE: Final = f"select distinct a, b from (select a, b from edges union all {_STEP})"
_LEAST: Final = (
    "select a, min(b) as b from (select a, b from seeds union all"
    " select e.b as a, x.b + e.c as b from x join edges e on x.a = e.a) group by a"
)
_LABELS: Final = (
    "select a, min(b) as b from (select a, a as b from edges union all select b as a, b from edges union all"
    " select e.b as a, x.b from x join edges e on x.a = e.a union all"
    " select e.a, x.b from x join edges e on x.a = e.b) group by a"
)

QUERIES: Final[Mapping[str, Query]] = {
    "reachability": Query({"x": Looped(_REACHED)}),
    "transitive closure": Query({"x": Looped(_CLOSURE)}),
    "non-linear closure": Query(
        {
            "x": Looped(
                "select distinct a, b from (select a, b from edges union all"
                " select one.a, other.b from x one join x other on one.b = other.a)"
            )
        }
    ),
    "cheapest path": Query({"x": Looped(_LEAST)}),
    "components": Query({"x": Looped(_LABELS)}),
    "what enters goes round": Query(
        {"x": Looped("select distinct x.a, e.b from x join edges e on x.b = e.a", "select a, b from seeds")}
    ),
    "a loop in a loop": Query(
        {
            "x": Looped("select distinct a, b from (select a, b from seeds union all select a, b from y)"),
            "y": Looped(
                "select distinct a, b from (select x.a, e.b from x join edges e on x.b = e.a union all"
                " select y.a, m.b from y join more m on y.b = m.a)"
            ),
        }
    ),
    "two loops that read each other": Query(
        {
            "x": Looped("select distinct a, b from (select a, b from edges union all select b as a, a as b from y)"),
            "y": Looped(
                "select distinct a, b from (select a, b from seeds union all"
                " select x.a, y.b from x join y on x.b = y.a)"
            ),
        }
    ),
    "two loops in one plan": Query(
        {"x": Looped(_REACHED), "y": Looped(_CLOSURE.replace("x", "y"))},
        "select x.a, y.b from x join y on x.b = y.a",
    ),
    "a loop over a loop": Query(
        {
            "x": Looped(_REACHED.replace("edges", "y")),
            "y": Looped("select distinct a, b from (select a, b from more union all select b as a, a as b from y)"),
        }
    ),
    "an anti join with a source": Query(
        {
            "x": Looped(
                f"select distinct a, b from (select a, b from seeds union all {_STEP}"
                " where not exists (select 1 from more m where m.a = e.b))"
            )
        }
    ),
    "an anti join with what came back": Query(
        {
            "x": Looped(
                "select distinct a, b from edges e where not exists (select 1 from x where x.a = e.b)",
                rounds=6,
            )
        }
    ),
    "an outer join": Query(
        {
            "x": Looped(
                "select distinct a, b from (select a, b from seeds union all"
                " select e.b as a, coalesce(x.b, -1) as b from edges e left join x on x.a = e.a)",
                rounds=7,
            )
        }
    ),
    "a set difference": Query(
        {"x": Looped(f"select a, b from ({_REACHED}) r except select a, b from more")},
    ),
    "a set difference with what came back": Query(
        {"x": Looped("select a, b from edges except select x.b as a, x.a as b from x", rounds=5)}
    ),
    "what another loop does not reach": Query(
        {
            "x": Looped(
                "select distinct a, b from (select a, b from more where not exists"
                " (select 1 from y where y.b = more.b) union all select x.a, e.b from x join edges e on x.b = e.a)"
            ),
            "y": Looped(_REACHED.replace("x", "y")),
        }
    ),
    "first rows": Query(
        {"x": Looped(f"select a, b from ({_REACHED}) r order by b desc nulls last, a nulls last limit 3", rounds=6)},
    ),
    "a window": Query(
        {
            "x": Looped(
                "select a, b from (select a, b, row_number() over (partition by a order by b desc nulls last) as n"
                f" from ({_REACHED}) r) ranked where n <= 2",
                rounds=6,
            )
        }
    ),
    "a sum by window": Query(
        {
            "x": Looped(
                f"select a, sum(b) over (partition by a order by b nulls last) as b from ({_REACHED}) r",
                rounds=4,
            )
        }
    ),
    "counts of paths": Query(
        {
            "x": Looped(
                "select a, count(*) as b from (select a, b from seeds union all"
                " select e.b as a, x.b from x join edges e on x.a = e.a) p group by a",
                rounds=6,
            )
        }
    ),
    "a sum of what came back": Query(
        {
            "x": Looped(
                "select a, cast(sum(b) as bigint) as b from (select a, b from seeds union all"
                " select e.b as a, x.b from x join edges e on x.a = e.a) p group by a",
                rounds=6,
            )
        }
    ),
    "every path": Query({"x": Looped(f"select a, b from seeds union all {_STEP}", rounds=4)}),
    "a semi join": Query(
        {
            "x": Looped(
                "select distinct a, b from (select a, b from seeds union all select e.a, e.b from edges e"
                " where exists (select 1 from x where x.b = e.a))"
            )
        }
    ),
    "a count above a loop": Query({"x": Looped(_REACHED)}, "select a, count(*) as b from x group by a"),
}


def history(seed: int, epochs: int = 4) -> Iterator[dict[str, Changed]]:
    """Edges, seeds and more edges over few nodes come and go; in one epoch nothing does."""
    chance = random.Random(seed)
    there: list[tuple[str, Row]] = []
    for number in range(epochs):
        changed: dict[str, list[tuple[Row, int]]] = {name: [] for name in SCHEMAS}
        for _ in range(0 if number == 2 else 14 if number == 0 else chance.randrange(1, 6)):
            if there and number and chance.random() < 0.6:
                source, row = there.pop(chance.randrange(len(there)))
                changed[source].append((row, -1))
            else:
                source, row = _row(chance)
                there.append((source, row))
                changed[source].append((row, 1))
        for rows in changed.values():
            chance.shuffle(rows)
        yield changed


def _row(chance: random.Random) -> tuple[str, Row]:
    source = chance.choice(["edges", "edges", "edges", "more", "seeds"])
    nodes = [chance.choice([0, 1, 2, 3, 4, 5, 5, None]) for _ in range(2)]
    return source, (*nodes, chance.randrange(3)) if source == "edges" else tuple(nodes)
