"""Terms and histories of changes out of a seed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from .per_key import GROWS, KINDS, Bag, Pair
from .running import Changes
from .terms import (
    Compose,
    Distinct,
    DoesNotEnd,
    Except,
    Input,
    Iterate,
    Negate,
    PerKey,
    Ref,
    Swap,
    Term,
    Union,
    answer,
)

MOST_NODES = 4


class RandomTerms:
    """Terms with loops in loops. Nothing makes them monotone, and no outer DISTINCT hides what is wrong."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._loops = 0

    def loop(self, around: tuple[str, ...] = (), *, nested: int = 0) -> Iterate:
        """A loop, with so many levels of loops in it."""
        self._loops += 1
        name = f"x{self._loops}"
        body = self.body((*around, name), nested)
        leaves: list[Term] = [Input(0), Input(1), *(Ref(other) for other in around)]
        entering = self.random.choice([None, *leaves])
        rounds = self.random.choice([None, None, None, 1, 3] if nested else [None, None, None, 0, 1, 3])
        return Iterate(name, body, entering, rounds)

    def recursion(self) -> Iterate:
        """A loop that goes on for as long as its edges lead anywhere."""
        back = Ref("x")
        steps: list[Term] = [Compose(back, Input(0)), Compose(Input(0), back), Compose(back, back)]
        steps += [
            Compose(Swap(back), Input(0)),
            Distinct(Compose(back, Input(0))),
            Compose(back, Compose(back, Input(1))),
        ]
        grown: Term = Union(tuple(self.random.sample(steps, self.random.randint(1, 2))))
        if self.random.random() < 0.3:
            grown = Except(grown, self.random.choice([Input(1), Compose(Input(1), Input(0))]))
        inside = self.random.random() < 0.5
        body = Distinct(Union((Input(1), grown)) if inside else grown)
        return Iterate("x", body, None if inside else Input(1), self.random.choice([None, None, None, 2, 4]))

    def nest(self) -> Iterate:
        """A loop whose body is a loop that reads it, both with work to do, and no DISTINCT around the inner one."""
        outer, inner = Ref("outer"), Ref("inner")
        base = self.random.choice([Compose(outer, Input(0)), Compose(Input(1), outer), Swap(outer), outer])
        steps: list[Term] = [Compose(inner, Input(1)), Compose(inner, Input(0)), Compose(inner, inner), Swap(inner)]
        steps += [Compose(outer, inner), Compose(Input(0), inner)]
        grown: Term = Union((base, *self.random.sample(steps, self.random.randint(1, 2))))
        if self.random.random() < 0.3:
            grown = Except(grown, self.random.choice([Input(1), Compose(Input(0), Input(1))]))
        body: Term = Iterate("inner", Distinct(grown))
        if self.random.random() < 0.3:
            body = Except(body, Input(1))
        return Iterate("outer", body, entering=Input(0))

    def per_key(self, *, nested: bool = False) -> Iterate:
        """A loop that answers for each key from all its rows; `nested`, so does one inside of it."""
        kind, inner_kind = self.random.choice(list(KINDS)), self.random.choice(list(KINDS))
        back, inner = Ref("x"), Ref("y")
        steps: list[Term] = [Compose(back, Input(0)), Compose(back, back), Swap(back), Compose(Input(0), back)]
        step = self.random.choice(steps)
        if nested:
            onward = self.random.choice([Compose(inner, Input(0)), Compose(inner, inner), Compose(inner, back)])
            limit = 3 if inner_kind in GROWS else self.random.choice([None, None, 4])
            step = Iterate("y", PerKey(inner_kind, Union((step, onward))), rounds=limit)
        grown: Term = Union((Input(1), step))
        if self.random.random() < 0.3:
            grown = Distinct(grown)
        limit = 3 if kind in GROWS else self.random.choice([None, None, 5])
        return Iterate("x", PerKey(kind, grown), rounds=limit)

    def body(self, loops: tuple[str, ...], nested: int) -> Term:
        inner = self.loop(loops, nested=nested - 1) if nested else None
        step = self.part(loops, inner, 2)
        parts = (step, self.random.choice([Input(0), Input(1), Compose(Input(0), Ref(loops[-1]))]))
        combined = self.random.choice([Union(parts), Union(parts), Except(*parts), step])
        return self.random.choice([Distinct(combined), Distinct(combined), combined])

    def part(self, loops: tuple[str, ...], inner: Term | None, depth: int) -> Term:
        leaves: list[Term] = [Input(0), *map(Ref, loops), Ref(loops[-1]), *([inner] * 3 if inner else [])]
        if depth == 0:
            return self.random.choice(leaves)
        one, other = self.part(loops, inner, depth - 1), self.part(loops, inner, depth - 1)
        match self.random.randrange(8):
            case 0 | 1 | 2:
                return Compose(one, other)
            case 3:
                return Distinct(one)
            case 4:
                return Except(one, other)
            case 5:
                return Union((one, other))
            case 6:
                return Union((one, Negate(other)))
            case _:
                return Swap(one)


def random_history(
    source: random.Random, *, epochs: int = 4, nodes: int = MOST_NODES, at_first: int = 0
) -> list[Changes]:
    """Edges come and go: duplicates, self-loops, rows that go in the epoch they came in, an epoch with nothing. The
    first epoch has so many changes more.
    """
    there: list[tuple[int, Pair]] = []
    history: list[Changes] = []
    for number in range(epochs):
        epoch: list[tuple[int, Pair, int]] = []
        for _ in range(source.randrange(6) + (0 if number else at_first)):
            if there and source.random() < 0.45:
                port, row = there.pop(source.randrange(len(there)))
                epoch.append((port, row, -1))
            else:
                port, row = source.randrange(2), (source.randrange(nodes), source.randrange(nodes))
                there.append((port, row))
                epoch.append((port, row, 1))
        source.shuffle(epoch)
        history.append(epoch)
    return history


def ends(term: Term, history: Sequence[Changes], *, integrated: bool = True) -> bool:
    """Whether the naive answer has a fixpoint after every epoch."""
    inputs: list[Bag] = [Counter(), Counter()]
    for epoch in history:
        if not integrated:
            inputs = [Counter(), Counter()]
        for port, row, weight in epoch:
            inputs[port][row] += weight
        try:
            answer(term, inputs)
        except DoesNotEnd:
            return False
    return True
