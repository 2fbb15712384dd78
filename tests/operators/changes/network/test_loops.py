"""Loops of any form mean X(0) = nothing, X(k+1) = what enters + body(X(k)): against an answer made naively."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tidegate.operators.changes import distinct_or_set_op as weigh
from tidegate.operators.changes.kept.history import again
from tidegate.operators.changes.values.change import ManyRounds, Rounds
from tidegate.operators.changes.values.value_columns import Index

from ....searching import in_search, one_of_each, tries
from .random_terms import RandomTerms, ends, random_history
from .running import Changes, check_continuous, check_per_epoch
from .terms import Compose, Distinct, Except, Input, Iterate, Negate, Ref, Swap, Term, Union

E, S = Input(0), Input(1)
SEEDS = 40
"""So many random nests show what goes wrong, as a test makes sure."""
GRAPH = [(0, (0, 1), 1), (0, (1, 2), 1), (0, (2, 0), 1), (0, (2, 3), 1), (1, (3, 3), 1), (1, (0, 0), 1)]

FORMS: dict[str, Term] = {
    "what enters goes round": Iterate("x", Distinct(Compose(Ref("x"), E)), entering=S, rounds=6),
    "nothing enters": Iterate("x", Distinct(Union((S, Compose(Ref("x"), E))))),
    "two references": Iterate("x", Distinct(Union((E, Compose(Ref("x"), Ref("x")))))),
    "two loops side by side": Union(
        (Iterate("x", Distinct(Union((E, Compose(Ref("x"), E))))), Iterate("y", Distinct(Union((S, Swap(Ref("y")))))))
    ),
    "a loop above a loop": Iterate(
        "y", Distinct(Union((Iterate("x", Distinct(Union((S, Compose(Ref("x"), E))))), Compose(Ref("y"), E))))
    ),
    "a loop in a loop": Iterate(
        "x", Distinct(Union((S, Iterate("y", Distinct(Union((Compose(Ref("x"), E), Compose(Ref("y"), E))))))))
    ),
    "two loops that read each other": Iterate(
        "x",
        Distinct(Union((E, Swap(Iterate("y", Distinct(Union((S, Ref("x"), Compose(Ref("y"), Ref("x")))))))))),
    ),
    "a loop whose body reads nothing that came back": Iterate("x", Distinct(E), entering=S),
    "what is not reached in the last round": Iterate("x", Except(E, Compose(Ref("x"), S)), rounds=3),
    "a loop that forgets": Iterate("x", Union((S, Negate(Ref("x")))), rounds=5),
}


@pytest.mark.parametrize(("form", "channels"), one_of_each(product(FORMS, [1, 2, 3])))
def test_every_form_of_loop_has_the_naive_answer(form: str, channels: int) -> None:
    for seed in (None, 1):
        check_per_epoch(FORMS[form], [GRAPH, GRAPH[:3], []], channels=channels, seed=seed)
        undone = [(port, row, -weight) for port, row, weight in GRAPH[1:4]]
        check_continuous(FORMS[form], [GRAPH, undone, [], GRAPH], channels=channels, seed=seed)


@settings(max_examples=tries(25), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 3), st.booleans())
def test_a_recursion_follows_any_history(seed: int, channels: int, ordered: bool) -> None:
    terms = RandomTerms(seed)
    recursion = terms.recursion()
    history = random_history(terms.random, epochs=5, nodes=6, at_first=12)
    check_continuous(recursion, history, channels=channels, seed=None if ordered else seed)


@settings(max_examples=tries(15), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 1), st.integers(1, 3), st.booleans())
def test_a_continuous_loop_follows_any_history(seed: int, nested: int, channels: int, ordered: bool) -> None:
    terms = RandomTerms(seed)
    loop = terms.loop(nested=nested)
    history = random_history(terms.random, at_first=4)
    assume(ends(loop, history))
    check_continuous(loop, history, channels=channels, seed=None if ordered else seed)


@settings(max_examples=tries(25), deadline=None)
@given(st.integers(0, 1 << 30), st.booleans(), st.integers(1, 3), st.booleans())
def test_a_loop_that_aggregates_follows_any_history(seed: int, nested: bool, channels: int, ordered: bool) -> None:
    """With least and greatest values, counts, sums, first rows, windows and recomputations in its body."""
    terms = RandomTerms(seed)
    loop = terms.per_key(nested=nested)
    history = random_history(terms.random, epochs=5, nodes=5, at_first=8)
    assume(ends(loop, history))
    check_continuous(loop, history, channels=channels, seed=None if ordered else seed)


@settings(max_examples=tries(30), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 1), st.integers(1, 3))
def test_a_per_epoch_loop_answers_each_epoch_by_itself(seed: int, nested: int, channels: int) -> None:
    terms = RandomTerms(seed)
    loop = terms.loop(nested=nested)
    history = [[(port, row, 1) for port, row, _ in epoch] for epoch in random_history(terms.random, at_first=4)]
    assume(ends(loop, history, integrated=False))
    check_per_epoch(loop, history, channels=channels, seed=seed)


def random_nest(seed: int) -> tuple[Iterate, list[Changes]]:
    terms = RandomTerms(seed)
    return terms.nest(), random_history(terms.random, epochs=6, nodes=6, at_first=12)


@pytest.mark.parametrize("first", [0, *in_search(*range(SEEDS, 5 * SEEDS, SEEDS))])
def test_loops_in_loops_follow_any_history(first: int) -> None:
    for seed in range(first, first + SEEDS):
        nest, history = random_nest(seed)
        check_continuous(nest, history, channels=1, seed=None)


def test_random_nests_of_loops_go_wrong_without_the_least_upper_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def times_of_the_history_alone(asked: Index, rounds: ManyRounds, time: Rounds) -> Iterator[tuple[Rounds, Index]]:
        touched = set(zip(*(numbers.tolist() for numbers in rounds), strict=True))
        return ((later, which) for later, which in again(asked, rounds, time) if later in touched)

    monkeypatch.setattr(weigh, "again", times_of_the_history_alone)
    wrong = 0
    for nest, history in map(random_nest, range(SEEDS)):
        try:
            check_continuous(nest, history, channels=1, seed=None)
        except AssertionError:
            wrong += 1
        if wrong == 5:
            return
    pytest.fail(f"only {wrong} nests go wrong")


@settings(max_examples=tries(10), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(2, 3))
def test_loops_in_loops_follow_any_history_on_channels(seed: int, channels: int) -> None:
    nest, history = random_nest(seed)
    assume(ends(nest, history))
    check_continuous(nest, history[:3], channels=channels, seed=seed)
