"""Chooses the value of each option of a function: the plan's first supported preference, else the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ...proto.errors import PlanError, Problem
from .registry import Implementation
from .templates import entry, refusal

_OLD_VALUES: Final = {"NONE": "NULL"}
"""Today's names of values, by the names that earlier releases gave them."""
_FLOATS: Final = frozenset({"fp32", "fp64"})


def choose(implementation: Implementation, asked: Mapping[str, Sequence[str]], plan_path: str) -> dict[str, str]:
    """The value for every option that the implementation has.

    Raises `PlanError` if the function is not supported, has no such option or value, or if Tidegate can honour none of
    the requested values.
    """
    table_entry = entry(implementation.kind, implementation.file, implementation.name)
    if table_entry is None:
        why = refusal(implementation.file, implementation.name)
        raise _problem(plan_path, "UNSUPPORTED_FUNCTION", f"{implementation.signature} is not supported: {why}")
    choices: dict[str, str] = {}
    for option, values in implementation.options.items():
        supported = [value for value in table_entry.options.get(option, ()) if value in values]
        wanted = [_OLD_VALUES.get(value.upper(), value.upper()) for value in asked.get(option, ())]
        if not wanted:
            if supported:
                choices[option] = supported[0]
            continue
        chosen = next((value for value in wanted if value in supported), None)
        if chosen is None:
            raise _problem(
                plan_path,
                "UNSUPPORTED_OPTION",
                f"{implementation.signature}: option {option} = {', '.join(wanted)} is not supported"
                f" (supported: {', '.join(supported) or 'none'})",
            )
        choices[option] = chosen
    for option in asked:
        if option not in implementation.options and not (option == "overflow" and _of_floats(implementation)):
            has = ", ".join(implementation.options) or "none"
            raise _problem(
                plan_path, "UNKNOWN_OPTION", f"{implementation.signature} has no option {option}; there are: {has}"
            )
    return choices


def _of_floats(implementation: Implementation) -> bool:
    """True for a function of floats alone. These overflow to infinity, so it is all the same what a plan says of their
    overflow: pyarrow says it of all arithmetic.
    """
    return set(implementation.signature.partition(":")[2].split("_")) <= _FLOATS


def _problem(plan_path: str, reason: str, message: str) -> PlanError:
    return PlanError(Problem(place=plan_path, reason=reason, message=message))
