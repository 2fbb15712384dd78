"""Collects the problems of a plan while decoding goes on."""

from __future__ import annotations

from typing import Final

from ...proto.errors import PlanError, Problem
from .plan_path import PlanPath

MAX_PROBLEMS: Final = 100
MOST_COUNTED: Final = 1_000
"""The most problems beyond those that are kept. A plan may name one part of megabytes in each of 20,000 problems."""
LONGEST_MESSAGE: Final = 4_000
_LONGEST_TEXT: Final = 1_000


class TooManyProblems(Exception):
    """The plan has so many problems that nothing looks for more of them."""


class Problems:
    """The problems found so far. After `MAX_PROBLEMS` the rest is only counted, and after `MOST_COUNTED` more of them
    `add` raises `TooManyProblems`.
    """

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._more = 0
        self._warnings: dict[str, None] = {}

    def add(self, plan_path: PlanPath, reason: str, message: str) -> None:
        if len(self._found) < MAX_PROBLEMS:
            short = shortened(message, LONGEST_MESSAGE)
            self._found.append(Problem(place=str(plan_path), reason=reason, message=short))
        elif self._more < MOST_COUNTED:
            self._more += 1
        else:
            raise TooManyProblems

    def warn(self, plan_path: PlanPath, message: str) -> None:
        """Notes something that changes no result, but that the plan's author may want to know. Each warning is kept
        once.
        """
        if len(self._warnings) < MAX_PROBLEMS:
            self._warnings[f"{plan_path}: {shortened(message, LONGEST_MESSAGE)}"] = None

    def __len__(self) -> int:
        return len(self._found) + self._more

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def raise_any(self) -> None:
        """Raises all problems found as one `PlanError`, if there are any."""
        if not self._found:
            return
        problems = self._found
        if self._more:
            at_least = "at least " if self._more == MOST_COUNTED else ""
            message = f"{at_least}{self._more} more problems"
            problems = [*problems, Problem(place="", reason="TOO_MANY_PROBLEMS", message=message)]
        raise PlanError(*problems)


def shortened(text: str, longest: int = _LONGEST_TEXT) -> str:
    """The text, or its beginning and its length: names and types in a plan may have megabytes."""
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text):,} characters)"
