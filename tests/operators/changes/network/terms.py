"""Queries over pairs of numbers, as small terms that can be made into a graph and answered naively as well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.operators.changes.change_operator import ChangeOperator
from tidegate.operators.changes.distinct_or_set_op import DistinctOrSetOp, Weighing
from tidegate.operators.changes.join import Join as JoinOperator
from tidegate.operators.changes.join import JoinKey
from tidegate.operators.changes.network.network_graph import (
    Back,
    ByKey,
    Entry,
    Graph,
    Limits,
    Link,
    Loop,
    OnLimit,
    Operate,
    Route,
    Vertex,
)
from tidegate.operators.changes.values.change import Change

from .per_key import KINDS, PAIRS, Bag

_WHOLE = ByKey((0, 1))


@dataclass(frozen=True)
class Input:
    port: int


@dataclass(frozen=True)
class Ref:
    loop: str


@dataclass(frozen=True)
class Compose:
    """(a, c) for (a, b) in the left and (b, c) in the right."""

    left: Term
    right: Term


@dataclass(frozen=True)
class Distinct:
    of: Term


@dataclass(frozen=True)
class Except:
    left: Term
    right: Term


@dataclass(frozen=True)
class Union:
    parts: tuple[Term, ...]


@dataclass(frozen=True)
class Negate:
    of: Term


@dataclass(frozen=True)
class Swap:
    of: Term


@dataclass(frozen=True)
class PerKey:
    """One of KINDS."""

    kind: str
    of: Term


@dataclass(frozen=True)
class Iterate:
    name: str
    body: Term
    entering: Term | None = None
    rounds: int | None = None
    on_rounds: OnLimit = OnLimit.RETURN
    rows: int | None = None
    seconds: float | None = None


Term: TypeAlias = Input | Ref | Compose | Distinct | Except | Union | Negate | Swap | PerKey | Iterate


class DoesNotEnd(Exception):
    """The naive answer has no fixpoint, as far as was looked."""


def answer(term: Term, inputs: Sequence[Bag], refs: Mapping[str, Bag] | None = None, most_rounds: int = 25) -> Bag:
    """The naive answer, round by round from nothing."""
    refs = refs or {}

    def of(part: Term) -> Bag:
        return answer(part, inputs, refs, most_rounds)

    match term:
        case Input(port):
            return nonzero(inputs[port])
        case Ref(loop):
            return refs[loop]
        case Compose(left, right):
            return _composed(of(left), of(right))
        case Distinct(part):
            return Counter({row: 1 for row, weight in of(part).items() if weight > 0})
        case Except(left, right):
            theirs = of(right)
            return Counter({row: 1 for row, weight in of(left).items() if weight > 0 >= theirs[row]})
        case Union(parts):
            return summed(map(of, parts))
        case Negate(part):
            return Counter({row: -weight for row, weight in of(part).items()})
        case Swap(part):
            return Counter({(b, a): weight for (a, b), weight in of(part).items()})
        case PerKey(kind, part):
            return KINDS[kind].answer(of(part))
        case Iterate():
            return _fixpoint(term, inputs, refs, most_rounds)


def _fixpoint(term: Iterate, inputs: Sequence[Bag], refs: Mapping[str, Bag], most_rounds: int) -> Bag:
    entering = Counter() if term.entering is None else answer(term.entering, inputs, refs, most_rounds)
    reached: Bag = Counter()
    for number in range(most_rounds):
        if number == term.rounds:
            return reached
        after = summed([entering, answer(term.body, inputs, {**refs, term.name: reached}, most_rounds)])
        if any(abs(weight) > 10_000 for weight in after.values()):
            break
        if after == reached:
            return reached
        reached = after
    raise DoesNotEnd


def _composed(left: Bag, right: Bag) -> Bag:
    total: Bag = Counter()
    for (a, b), mine in left.items():
        for (c, d), theirs in right.items():
            if b == c:
                total[a, d] += mine * theirs
    return nonzero(total)


def summed(bags: Iterable[Bag]) -> Bag:
    total: Bag = Counter()
    for bag in bags:
        for row, weight in bag.items():
            total[row] += weight
    return nonzero(total)


def nonzero(bag: Bag) -> Bag:
    return Counter({row: weight for row, weight in bag.items() if weight})


class Linear(ChangeOperator):
    """Passes on every change, changed."""

    schema = PAIRS

    def __init__(self, function: Callable[[Change], Change] = lambda change: change) -> None:
        self._function = function

    def receive(self, port: int, change: Change) -> Iterable[Change]:
        return (self._function(change),)


def graph_of(term: Term, *, continuous: bool = True) -> Graph:
    """The term as a graph with entries 0 and 1; outermost loops count their rounds only if it is to be continuous."""
    scope = _Scope(None, None, 0, continuous)
    for port in range(2):
        scope.number_of(Input(port))
    return scope.graph(term)


@dataclass
class _Scope:
    """A graph in the making: that of the body of `loop`, inside `outer`."""

    outer: _Scope | None
    loop: str | None
    depth: int
    continuous: bool
    vertices: list[Vertex] = field(default_factory=list)
    numbers: dict[Term, int] = field(default_factory=dict)
    inputs: list[Link] = field(default_factory=list)

    def graph(self, term: Term) -> Graph:
        result = self.number_of(term)
        return Graph(tuple(self.vertices), result)

    def number_of(self, term: Term) -> int:
        if term not in self.numbers:
            vertex = self._vertex(term)
            self.vertices.append(vertex)
            self.numbers[term] = len(self.vertices) - 1
        return self.numbers[term]

    def link(self, term: Term, route: Route = None) -> Link:
        return Link(self.number_of(term), route)

    def _vertex(self, term: Term) -> Vertex:
        depth = self.depth
        match term:
            case Ref(loop) if loop == self.loop:
                return Back(PAIRS)
            case Input(port) if self.outer is None:
                return Entry(port, PAIRS)
            case Input() | Ref():
                assert self.outer is not None, f"{term} is read outside its loop"
                self.inputs.append(self.outer.link(term))
                return Entry(len(self.inputs) - 1, PAIRS)
            case Compose(left, right):
                inputs = (self.link(left, ByKey((1,))), self.link(right, ByKey((0,))))
                return Operate(
                    lambda _: JoinOperator(PAIRS, PAIRS, [JoinKey(1, 0)], [0, 3], depth=depth), inputs, PAIRS, "compose"
                )
            case Distinct(of):
                make = lambda _: DistinctOrSetOp(PAIRS, Weighing.DISTINCT, depth=depth)  # noqa: E731
                return Operate(make, (self.link(of, _WHOLE),), PAIRS, "distinct")
            case Except(left, right):
                make = lambda _: DistinctOrSetOp(PAIRS, Weighing.EXCEPT_ANY, inputs=2, depth=depth)  # noqa: E731
                return Operate(make, (self.link(left, _WHOLE), self.link(right, _WHOLE)), PAIRS, "except")
            case Union(parts):
                return Operate(lambda _: Linear(), tuple(self.link(part) for part in parts), PAIRS, "union")
            case Negate(of):
                return Operate(lambda _: Linear(Change.negated), (self.link(of),), PAIRS, "negate")
            case Swap(of):
                swap = lambda change: change.with_rows(change.rows.select((1, 0)))  # noqa: E731
                return Operate(lambda _: Linear(swap), (self.link(of),), PAIRS, "swap")
            case PerKey(name, of):
                kind = KINDS[name]
                return Operate(lambda _: kind.make(depth), (self.link(of, kind.route),), PAIRS, name)
            case Iterate():
                return self._iterate(term)

    def _iterate(self, term: Iterate) -> Loop:
        counted = self.continuous or self.loop is not None
        inner = _Scope(self, term.name, self.depth + counted, self.continuous)
        body = inner.graph(term.body)
        return Loop(
            name=term.name,
            body=body,
            inputs=tuple(inner.inputs),
            entering=None if term.entering is None else self.link(term.entering),
            limits=Limits(rounds=term.rounds, on_rounds=term.on_rounds, rows=term.rows, seconds=term.seconds),
            counted=counted,
            schema=PAIRS,
            plan_path=term.name,
        )
