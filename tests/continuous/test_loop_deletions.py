"""Continuous loops after deletions that are easy to get wrong, through the service."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import pytest

import tidegate
from tidegate.operators.changes import distinct_or_set_op as weigh
from tidegate.operators.changes import keyed_operator as keyed
from tidegate.operators.changes.values.change import ManyRounds, Rounds
from tidegate.operators.changes.values.value_columns import Index

from ..loops.queries import QUERIES, SCHEMAS
from .histories import Changed, Integral, Row, changes

Epochs: TypeAlias = Sequence[Sequence[tuple[str, int]]]
"""Edges `"a>b"` or `"a>b cost"`, each with its weight; an edge from 0 begins at the seed."""

SEED: Final[Changed] = [((0, 0), 1)]


def there(*edges: str) -> list[tuple[str, int]]:
    return [(edge, 1) for edge in edges]


def gone(*edges: str) -> list[tuple[str, int]]:
    return [(edge, -1) for edge in edges]


CASES: Final[Mapping[str, tuple[str, Epochs]]] = {
    "an edge into a cycle": ("reachability", [there("0>1", "1>2", "2>1"), gone("0>1")]),
    "a component cut off its root": (
        "reachability",
        [there("0>1", "1>2", "2>3", "3>1", "3>4", "4>2"), gone("0>1"), there("0>4")],
    ),
    "one of two parallel paths": ("reachability", [there("0>1", "1>3", "0>2", "2>3", "3>4"), gone("1>3"), gone("2>3")]),
    "the shorter of two paths": (
        "reachability",
        [there("0>1", "1>2", "2>3", "3>4", "0>3"), gone("0>3"), there("0>3"), gone("0>1")],
    ),
    "an edge beside a longer path": ("transitive closure", [there("1>2", "2>3", "3>4", "1>4", "4>5"), gone("1>4")]),
    "a self-loop": ("reachability", [there("0>1", "1>1"), gone("0>1"), there("0>1"), gone("1>1")]),
    "a duplicate edge": ("reachability", [there("0>1", "0>1", "1>2"), gone("0>1"), gone("0>1")]),
    "insert and delete in one epoch": (
        "reachability",
        [there("0>1"), [*there("1>2", "2>3"), *gone("1>2")], gone("2>3")],
    ),
    "a subtree under another parent": (
        "transitive closure",
        [there("0>1", "0>2", "1>3", "3>4", "3>5"), [*gone("1>3"), *there("2>3")]],
    ),
    "a pair of a closure in two ways": ("non-linear closure", [there("0>1", "1>2", "2>0", "0>2"), gone("0>1")]),
    "a deletion that raises a least cost": (
        "cheapest path",
        [there("0>1 1", "1>2 1", "0>2 5", "2>3 1", "3>1 0"), gone("1>2 1"), gone("0>1 1")],
    ),
    "a deletion that splits a component": ("components", [there("0>1", "1>2", "2>3", "3>1"), gone("0>1"), gone("1>2")]),
    "an edge of a component's cycle": ("components", [there("0>1", "1>2", "2>3", "3>1"), gone("1>2")]),
}


def rows(epoch: Sequence[tuple[str, int]]) -> Changed:
    return [((*map(int, edge.split(" ")[0].split(">")), int(edge[4:] or 1)), weight) for edge, weight in epoch]


def check(client: tidegate.Client, name: str, epochs: Epochs, channels: int) -> list[int]:
    """That each epoch gives the recomputed answer; the rounds that each has taken."""
    query = QUERIES[name]
    edges: Counter[Row] = Counter()
    integral, rounds = Integral(), [0]
    with client.create_task(query.plan(), mode="continuous", channels=channels) as task:
        for number, epoch in enumerate(map(rows, epochs)):
            for row, weight in epoch:
                edges[row] += weight
            fed = {"edges": epoch, "seeds": () if number else SEED}
            integral.add(
                task.run_epoch({source: changes(fed[source], SCHEMAS[source]) for source in task.sources}).table()
            )
            assert integral.rows == query.answer({"edges": list(edges.elements()), "seeds": [(0, 0)]})
            rounds.append(task.info().statistics.loops[0].rounds)
    return [after - before for before, after in itertools.pairwise(rounds)]


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_what_is_left_is_what_a_recomputation_says(client: tidegate.Client, case: str, channels: int) -> None:
    name, epochs = CASES[case]
    check(client, name, epochs, channels)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_cycle_cut_off_its_root_ends_in_a_few_rounds(client: tidegate.Client, channels: int) -> None:
    _, after = check(client, "reachability", [there("0>1", "1>2", "2>1"), gone("0>1")], channels)
    assert after <= 6


def never_again(_asked: Index, _rounds: ManyRounds, _time: Rounds) -> Iterator[tuple[Rounds, Index]]:
    return iter(())


WRONG_WITHOUT: Final = (
    "the shorter of two paths",
    "an edge beside a longer path",
    "a deletion that raises a least cost",
    "an edge of a component's cycle",
)
"""The same edge after another deletion is none of them: what an epoch has taken back and a join still has in two
entries comes out of it at the later rounds as two rows that cancel, and they touch the keys to be decided again.
"""


@pytest.mark.parametrize("case", WRONG_WITHOUT)
def test_keys_must_be_decided_again_at_later_rounds_of_their_history(
    client: tidegate.Client, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyed, "again", never_again)
    monkeypatch.setattr(weigh.DistinctOrSetOp, "_put_nothing_down", lambda *_: None)
    with pytest.raises((AssertionError, tidegate.TidegateError)):
        check(client, *CASES[case], 1)
