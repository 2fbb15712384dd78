"""Takes a distributed plan apart at its exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .. import ir
from ..ir import tree
from ..ir.visit import subqueries_of
from .distribute import Spread


@dataclass(slots=True, eq=False)
class Stage:
    """The work of one pipeline: `root`, on `channels` channels, down to the exchanges in `receives`, numbered.

    `sends` are the exchanges that get the pipeline's rows, by number, each with the number of channels that read it.
    """

    root: ir.Relation
    channels: int
    receives: dict[ir.Exchange, int] = field(default_factory=dict)
    sends: dict[int, tuple[ir.Exchange, int]] = field(default_factory=dict)


def stages(spread: Spread) -> list[Stage]:
    """The stages in order: every stage after those that send to it; the last stage is the root's."""
    last = Stage(_computed(spread.root), spread.channels)
    known: dict[tuple[ir.Relation, int], Stage] = {}
    before: dict[Stage, list[Stage]] = {}
    numbers = 0
    to_do = [last]
    while to_do:
        stage = to_do.pop()
        before[stage] = []
        for exchange in _exchanges(stage.root, spread.shared):
            key = (exchange.input, exchange.producers)
            sender = known.get(key)
            if sender is None:
                sender = known[key] = Stage(_computed(exchange.input), exchange.producers)
                to_do.append(sender)
            stage.receives[exchange] = numbers
            sender.sends[numbers] = (exchange, stage.channels)
            before[stage].append(sender)
            numbers += 1
    return list(_in_order(last, before))


def _computed(root: ir.Relation) -> ir.Relation:
    return tree.all_of(root) if isinstance(root, ir.Exchange) else root


def _exchanges(root: ir.Relation, shared: Sequence[ir.Relation]) -> Iterator[ir.Exchange]:
    """The exchanges right below a stage's root, each once, those that its shared relations read included."""
    seen: set[ir.Exchange] = set()
    used: set[int] = set()
    stack = [root]
    while stack:
        relation = stack.pop()
        if isinstance(relation, ir.Exchange):
            if relation not in seen:
                seen.add(relation)
                yield relation
            continue
        if isinstance(relation, ir.Shared):
            if relation.ordinal not in used:
                used.add(relation.ordinal)
                stack.append(shared[relation.ordinal])
            continue
        inner = [subquery.relation for subquery in subqueries_of(relation)]
        stack.extend(reversed((*tree.inputs(relation), *inner)))


def _in_order(last: Stage, before: dict[Stage, list[Stage]]) -> Iterator[Stage]:
    done: set[Stage] = set()
    stack: list[tuple[Stage, bool]] = [(last, False)]
    while stack:
        stage, below_done = stack.pop()
        if stage in done:
            continue
        if below_done:
            done.add(stage)
            yield stage
        else:
            stack.append((stage, True))
            stack.extend((earlier, False) for earlier in reversed(before[stage]))
