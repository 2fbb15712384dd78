"""Works that may step for long: a few of a principal start at once, the others one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tidegate.executor.runtime import admission as admissions
from tidegate.executor.runtime.admission import PAUSE_NS, Admission


@dataclass(frozen=True)
class Item:
    principal: str
    task: str


ALICE = [Item("alice", str(number)) for number in range(10)]
BOB = [Item("bob", str(number)) for number in range(10)]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Moves a clock that otherwise stands still."""
    now = [10 * PAUSE_NS]

    def move(nanoseconds: int) -> None:
        now[0] += nanoseconds

    monkeypatch.setattr(admissions.time, "monotonic_ns", lambda: now[0])
    return move


@pytest.fixture
def two(passes: Callable[[int], None]) -> Admission[Item]:
    """An admission that starts two works of each principal at once."""
    return Admission(2)


def test_beyond_those_that_start_at_once_one_is_on_trial(two: Admission[Item]) -> None:
    assert [two.admit(item) for item in ALICE[:4]] == [True, True, True, False]
    assert list(two) == [ALICE[3]]
    assert two.holds_back


def test_every_principal_has_its_own_number(two: Admission[Item]) -> None:
    for item in ALICE:
        two.admit(item)
    assert [two.admit(item) for item in BOB[:3]] == [True, True, True]


def test_a_trial_that_ends_lets_the_next_one_start(two: Admission[Item]) -> None:
    for item in ALICE[:5]:
        two.admit(item)
    assert two.ended(ALICE[2]) == [ALICE[3]]
    assert two.ended(ALICE[3]) == [ALICE[4]]
    assert not two.holds_back


def test_a_trial_that_turns_out_to_be_long_holds_the_next_one_back_for_a_pause(
    two: Admission[Item], passes: Callable[[int], None]
) -> None:
    for item in ALICE[:4]:
        two.admit(item)
    two.is_long(ALICE[2])
    passes(PAUSE_NS - 1)
    assert two.due() == []
    passes(1)
    assert two.due() == [ALICE[3]]


def test_the_pause_grows_with_the_number_of_long_works(two: Admission[Item], passes: Callable[[int], None]) -> None:
    for item in ALICE[:5]:
        two.admit(item)
    two.is_long(ALICE[2])
    passes(PAUSE_NS)
    assert two.due() == [ALICE[3]]
    two.is_long(ALICE[3])
    passes(PAUSE_NS)
    assert two.due() == []
    passes(PAUSE_NS)
    assert two.due() == [ALICE[4]]


def test_none_waits_for_works_without_an_end(two: Admission[Item], passes: Callable[[int], None]) -> None:
    started = [item for item in ALICE if two.admit(item)]
    for _ in range(1_000):
        two.is_long(started[-1])
        passes(PAUSE_NS)
        started += two.due()
    assert started == ALICE


def test_works_start_at_once_again_where_enough_have_ended(two: Admission[Item]) -> None:
    for item in ALICE[:4]:
        two.admit(item)
    two.is_long(ALICE[2])
    assert two.ended(ALICE[0]) == []
    assert two.ended(ALICE[1]) == [ALICE[3]]


def test_a_work_that_was_withdrawn_is_not_admitted(two: Admission[Item]) -> None:
    for item in ALICE[:5]:
        two.admit(item)
    assert two.withdraw(ALICE[3])
    assert not two.withdraw(ALICE[3])
    assert not two.withdraw(BOB[0])
    assert two.ended(ALICE[2]) == [ALICE[4]]


def test_nothing_is_kept_of_works_that_have_ended(two: Admission[Item]) -> None:
    for item in ALICE[:3]:
        two.admit(item)
    for item in ALICE[:3]:
        two.ended(item)
    assert vars(two)["_works"] == {}
