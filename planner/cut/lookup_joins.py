"""Joins of fed rows with static tables, as look-ups in a kept index.

DuckDB makes a join's hash table anew in every epoch. If an epoch is small beside a static table, its rows are looked up
instead, in an index over the table that is made once for the task. `candidates` finds, once per plan, the joins that
can be look-ups: inner joins, and joins that keep the fed side's unmatched rows, if plain columns of one type are equal.
`looked_up` chooses among them by an epoch's sizes, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from .. import ir
from ..analysis.exact import is_one_value
from ..analysis.facts import FactTable
from ..analysis.join_terms import Comparison, equality
from ..ir.boolean import conjuncts, with_conjuncts
from ..ir.by_node import ByNode
from ..ir.types import nullable, required
from ..ir.visit import beneath, rebuilt, relations, subqueries
from ..ir.walk import unroll

SMALLER: Final = 10
"""The least ratio of the table's rows to the epoch's rows, by the size classes."""

LEAST: Final = 100_000
"""The smallest size class of a table that is worth an index."""

MOST: Final = 100_000
"""The largest size class of the rows that are looked up: beyond it a hash table costs less than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A join that can be a look-up of `probe`'s rows in `table`. `pairs` are the equal columns of both sides. `rest`
    are the condition's other terms.
    """

    join: ir.Join
    probe: ir.Relation
    table: ir.Relation
    type: ir.JoinType
    pairs: tuple[tuple[int, int], ...]
    rest: tuple[ir.Expression, ...]

    @property
    def keys(self) -> tuple[int, ...]:
        return tuple(column for _, column in self.pairs)


def candidates(roots: Iterable[ir.Relation], facts: FactTable) -> ByNode[Candidate]:
    """The candidates below the roots, by the join, innermost first."""
    lookups = ByNode[Candidate]()
    for relation in reversed([visited for root in roots for visited in relations(root)]):
        if isinstance(relation, ir.Join) and facts.of(relation).closed:
            candidate = _candidate(relation, facts)
            if candidate is not None:
                lookups[relation] = candidate
    return lookups


def looked_up(
    root: ir.Relation, lookups: Mapping[ir.Relation, Candidate], chosen: Callable[[Candidate], bool]
) -> ir.Relation:
    """The relation with the chosen joins as look-ups; the relation itself if there are none."""

    def step(relation: ir.Relation) -> Generator[ir.Relation, ir.Relation, ir.Relation]:
        over = yield from rebuilt(relation)
        candidate = lookups.get(relation)
        if candidate is None or not isinstance(over, ir.Join) or not chosen(candidate):
            return over
        return _lookup(candidate, over)

    return unroll(step, root) if lookups else root


@dataclass(frozen=True, slots=True)
class Size:
    """The rows that a relation reads: `fed` by all of its reads of fed sources together, `most` by any one of its
    reads.
    """

    fed: int = 0
    most: int = 0


class Sizes:
    """The sizes of each relation in an epoch; `rows` are size classes by source."""

    def __init__(self, facts: FactTable, rows: Mapping[str, int]) -> None:
        self._facts = facts
        self._rows = rows
        self._known: dict[ir.Relation, Size] = {}

    def of(self, relation: ir.Relation) -> Size:
        return unroll(self._step, relation)

    def _step(self, relation: ir.Relation) -> Generator[ir.Relation, Size, Size]:
        known = self._known.get(relation)
        if known is not None:
            return known
        size = Size()
        if isinstance(relation, ir.Read | ir.LocalFiles):
            rows = self._rows[relation.source]
            size = Size(fed=rows if self._facts.of(relation).fed else 0, most=rows)
        for child in beneath(relation):
            child_size = yield child
            size = Size(fed=size.fed + child_size.fed, most=max(size.most, child_size.most))
        self._known[relation] = size
        return size


def is_small(candidate: Candidate, sizes: Sizes) -> bool:
    """Tests whether this epoch's rows are few beside the table's."""
    fed, table = sizes.of(candidate.probe).fed, sizes.of(candidate.table).most
    return fed <= MOST and table >= LEAST and fed * SMALLER <= table


def _candidate(join: ir.Join, facts: FactTable) -> Candidate | None:
    left, right = facts.of(join.left), facts.of(join.right)
    if left.fed == right.fed or not (left.reads and right.reads):
        return None
    keeps = ir.JoinType.LEFT if left.fed else ir.JoinType.RIGHT
    if join.type not in (ir.JoinType.INNER, keeps) or join.condition is None:
        return None
    pairs, rest = _split(join.condition, len(join.left.schema))
    if not pairs or (rest and join.type is not ir.JoinType.INNER):
        return None
    if any(next(subqueries(term), None) for term in rest):
        return None
    return Candidate(
        join=join,
        probe=join.left if left.fed else join.right,
        table=join.right if left.fed else join.left,
        type=ir.JoinType.INNER if join.type is ir.JoinType.INNER else ir.JoinType.LEFT,
        pairs=tuple(pairs if left.fed else ((other, one) for one, other in pairs)),
        rest=tuple(rest),
    )


def _split(condition: ir.Expression, width: int) -> tuple[list[tuple[int, int]], list[ir.Expression]]:
    """The pairs of columns that have to be equal, and the other terms."""
    pairs: list[tuple[int, int]] = []
    rest: list[ir.Expression] = []
    for term in conjuncts(condition):
        pair = equality(term, width)
        if pair is None or pair.columns is None or pair.nulls_match or not _is_looked_up(pair):
            rest.append(term)
        else:
            pairs.append(pair.columns)
    return pairs, rest


def _is_looked_up(pair: Comparison) -> bool:
    return pair.of_one_type and is_one_value(required(pair.left.type))


def _lookup(candidate: Candidate, join: ir.Join) -> ir.Relation:
    """The candidate's look-up over its new inputs. `join` is the candidate's join over them."""
    probe = join.left if candidate.probe is candidate.join.left else join.right
    width = len(probe.schema)
    types = candidate.table.schema
    right_types = tuple(map(nullable, types)) if candidate.type is ir.JoinType.LEFT else types
    keys = tuple(
        (ir.Field(index=mine, type=probe.schema[mine]), ir.Field(index=width + other, type=types[other]))
        for mine, other in candidate.pairs
    )
    lookup: ir.Relation = ir.IndexLookup(
        left=probe,
        right=candidate.table,
        keys=keys,
        type=candidate.type,
        index=ir.IndexUse(kind=ir.KEPT_KIND),
        schema=(*probe.schema, *right_types),
        plan_path=join.plan_path,
    )
    if candidate.probe is candidate.join.right:
        order = (*range(width, width + len(types)), *range(width))
        fields = tuple(ir.Field(index=at, type=lookup.schema[at]) for at in order)
        lookup = ir.Project(input=lookup, expressions=fields, schema=join.schema, plan_path=join.plan_path)
    if not candidate.rest or join.condition is None:
        return lookup
    return ir.Filter(
        input=lookup,
        condition=with_conjuncts(join.condition, candidate.rest),
        schema=join.schema,
        plan_path=join.plan_path,
    )
