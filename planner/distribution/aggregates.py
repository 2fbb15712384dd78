"""The alternatives of an aggregate.

If each group is already on one channel, the aggregate runs there. Else it runs in two halves, with the groups exchanged
between them; or, if a measure has to see all rows of its group, the rows are exchanged before the aggregate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from .. import ir
from ..analysis.sliced_columns import sliced_column
from ..choose.sliding_operators import is_sliced
from ..ir.building import columns, project
from ..ir.types import required
from ..ir.visit import is_column
from ..sql.states import State, states_of
from .alternatives import Alternative, Alternatives, Movement, Placement
from .estimates import Estimate, with_width_of

_GROUP: Final = 40.0


def aggregate_alternatives(
    relation: ir.Aggregate, below: Alternatives, groups: Estimate, movement: Movement
) -> Iterator[Alternative]:
    aggregating = _Aggregating(relation, below, groups, movement)
    yield aggregating.over(below.whole, Placement.WHOLE, below.estimate.rows)
    yield aggregating.over(below.one, Placement.ONE, below.estimate.rows)
    if len(relation.grouping_sets) != 1 or len(relation.grouping_sets[0]) != len(relation.keys):
        return
    yield from aggregating.where_it_is()
    yield from aggregating.in_halves()
    if relation.keys:
        yield aggregating.by_rows()


class _Aggregating:
    def __init__(self, relation: ir.Aggregate, below: Alternatives, groups: Estimate, movement: Movement) -> None:
        self._relation = relation
        self._below = below
        self._groups = groups
        self._movement = movement

    def over(
        self, alternative: Alternative, placement: Placement, rows: float, hashed: tuple[int, ...] | None = None
    ) -> Alternative:
        relation = replace(self._relation, input=alternative.relation)
        return Alternative(placement=placement, cost=alternative.cost + _GROUP * rows, relation=relation, hashed=hashed)

    def where_it_is(self) -> Iterator[Alternative]:
        """The aggregate on the channels as they are: the rows of a group are on one channel if the columns by which the
        rows were hashed or cut are among the keys, or slices between which they were cut.
        """
        positions = {key.index: at for at, key in enumerate(self._relation.keys) if is_column(key)}
        marks = enumerate(map(sliced_column, self._relation.keys))
        sliced = {(mark.column.index, mark.slices): (at, mark.column.type) for at, mark in marks if mark}
        for alternative in self._below.shares:
            if alternative.hashed and all(column in positions for column in alternative.hashed):
                hashed = tuple(positions[column] for column in alternative.hashed)
                yield self.over(alternative, Placement.SHARES, self._each(self._below.estimate.rows), hashed)
            elif alternative.ranged and alternative.ranged.column in positions:
                ranged = alternative.ranged._replace(column=positions[alternative.ranged.column])
                grouped = self.over(alternative, Placement.SHARES, self._each(self._below.estimate.rows))
                yield replace(grouped, ranged=ranged)
            elif alternative.ranged and alternative.ranged.type is None and alternative.ranged.slices:
                slices = sliced.get((alternative.ranged.column, alternative.ranged.slices))
                if slices is not None:
                    at, type_ = slices
                    ranged = alternative.ranged._replace(column=at, type=required(type_))
                    grouped = self.over(alternative, Placement.SHARES, self._each(self._below.estimate.rows))
                    yield replace(grouped, ranged=ranged)

    def in_halves(self) -> Iterator[Alternative]:
        halves = [states_of(measure) for measure in self._relation.measures]
        if not self._below.shares or not (self._relation.keys or halves):
            return
        states: list[State] = []
        for half in halves:
            if half is None:
                return
            states.extend(half)
        keys = len(self._relation.keys)
        schema = (*self._relation.schema[:keys], *(state.type for state in states))
        rows = min(self._below.estimate.rows, self._groups.rows * self._movement.channels)
        alternative = min(self._below.shares, key=lambda alternative: alternative.cost)
        partial = Alternative(
            placement=Placement.SHARES,
            cost=alternative.cost + _GROUP * self._each(self._below.estimate.rows),
            relation=ir.PartialAggregate(
                input=alternative.relation,
                keys=self._relation.keys,
                measures=self._relation.measures,
                schema=schema,
                plan_path=self._relation.plan_path,
            ),
        )
        estimate = with_width_of(Estimate(rows, rows), schema, [self._below.estimate])
        groups = self._movement.closed(estimate, [partial])
        yield self._final(groups.whole, Placement.WHOLE, rows)
        yield self._final(groups.best(Placement.ONE), Placement.ONE, rows)
        first = (0, 1) if is_sliced(self._relation) else (0,)  # without the slice, as windows are joined by other keys
        for hashed_keys in (tuple(range(begin, keys)) for begin in first if begin < keys):
            hashed = self._movement.hashed(groups, hashed_keys)
            yield self._final(hashed, Placement.SHARES, self._each(rows), hashed.hashed)

    def _final(
        self, alternative: Alternative, placement: Placement, rows: float, hashed: tuple[int, ...] | None = None
    ) -> Alternative:
        relation = ir.FinalAggregate(
            input=alternative.relation,
            keys=len(self._relation.keys),
            measures=self._relation.measures,
            schema=self._relation.schema,
            plan_path=self._relation.plan_path,
        )
        return Alternative(placement=placement, cost=alternative.cost + _GROUP * rows, relation=relation, hashed=hashed)

    def by_rows(self) -> Alternative:
        """The aggregate over rows that are sent to the channel of their keys. Computed keys become columns first."""
        keyed, keys, relation = _keyed(self._relation)
        below = self._below
        if keyed is not None:
            alternatives = tuple(
                replace(alternative, relation=replace(keyed, input=alternative.relation))
                for alternative in below.choices
            )
            below = Alternatives(estimate=below.estimate, choices=alternatives)
        alternative = self._movement.hashed(below, keys)
        cost = alternative.cost + _GROUP * self._each(below.estimate.rows)
        positions = {column: at for at, column in reversed(list(enumerate(keys)))}
        hashed = tuple(positions[column] for column in keys)
        rebuilt = replace(relation, input=alternative.relation)
        return Alternative(placement=Placement.SHARES, cost=cost, relation=rebuilt, hashed=hashed)

    def _each(self, rows: float) -> float:
        return rows / self._movement.channels


def _keyed(relation: ir.Aggregate) -> tuple[ir.Project | None, tuple[int, ...], ir.Aggregate]:
    """A projection that adds the computed keys to the input, the keys' columns, and the aggregate over the
    projection.
    """
    below = relation.input
    added = [key for key in relation.keys if not is_column(key)]
    positions = iter(range(len(below.schema), len(below.schema) + len(added)))
    keys = tuple(key.index if is_column(key) else next(positions) for key in relation.keys)
    if not added:
        return None, keys, relation
    projected = project(below, (*columns(below.schema), *added), relation.plan_path)
    fields = tuple(ir.Field(index=at, type=key.type) for at, key in zip(keys, relation.keys, strict=True))
    return projected, keys, replace(relation, keys=fields)
