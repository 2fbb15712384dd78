"""Of cases that are nearly alike CI leaves some to `make search`, and none of the values that they are made of."""

from __future__ import annotations

from itertools import product

from _pytest.mark import ParameterSet

from ..searching import every, in_search, one_of_each


def in_ci(cases: list[ParameterSet]) -> list[tuple[object, ...]]:
    return [case.values for case in cases if not case.marks]


def test_one_of_the_cases_that_differ_in_their_last_value_is_run() -> None:
    cases = one_of_each(product("abcd", [1, 2], ["x", "y", "z"]))
    assert [case.values for case in cases] == [*product("abcd", [1, 2], ["x", "y", "z"])]
    assert sorted(case[:-1] for case in in_ci(cases)) == [*product("abcd", [1, 2])]


def test_each_last_value_is_run_beside_each_of_the_others() -> None:
    """So that, say, not all cases of one mode run on one channel."""
    ran = {case[1:] for case in in_ci(one_of_each(product("abcd", ["per epoch", "continuous"], [1, 2])))}
    assert ran == {*product(["per epoch", "continuous"], [1, 2])}


def test_every_so_many_cases_one_is_run() -> None:
    cases = every(3, range(7))
    assert [case.values for case in cases] == [(number,) for number in range(7)]
    assert in_ci(cases) == [(0,), (3,), (6,)]


def test_a_tuple_is_a_case_of_several_values() -> None:
    cases = in_search("a", ("b", 1))
    assert [case.values for case in cases] == [("a",), ("b", 1)]
    assert in_ci(cases) == []
