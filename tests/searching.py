"""Time limits of searches for bugs: CI looks briefly, `make search` tries more and runs what is too long for CI."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

SEARCHES: Final = os.environ.get("HYPOTHESIS_PROFILE") == "search"
LONGER: Final = 20
"""How many times as many examples a search tries."""

search = pytest.mark.search
"""Marks a test that only `make search` runs."""


def tries(count: int) -> int:
    """The number of examples of a property: `count` in CI."""
    return count * LONGER if SEARCHES else count


def one_of_each(cases: Iterable[Sequence[Any]]) -> list[ParameterSet]:
    """All cases, of which CI runs one of those that differ in their last value alone. Which one changes from group to
    group, so that CI runs each of the last values, too.
    """
    groups: dict[object, list[Sequence[Any]]] = {}
    for case in cases:
        groups.setdefault(tuple(case[:-1]), []).append(case)
    return [
        pytest.param(*case, marks=() if position == (turn + turn // len(group)) % len(group) else search)
        for turn, group in enumerate(groups.values())
        for position, case in enumerate(group)
    ]


def every(count: int, cases: Iterable[Any]) -> list[ParameterSet]:
    """All cases, of which CI runs the first of every `count`: for cases whose neighbours are nearly alike."""
    return [pytest.param(case, marks=() if turn % count == 0 else search) for turn, case in enumerate(cases)]


def in_search(*cases: Any) -> list[ParameterSet]:
    """Cases that only `make search` runs. A tuple is a case of several values."""
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=search) for case in cases]
