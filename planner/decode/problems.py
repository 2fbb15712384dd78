"""Collects the problems of a plan while decoding goes on."""

from __future__ import annotations

from ...proto.errors import PlanError, Problem
from .plan_path import PlanPath

MAX_PROBLEMS = 100


class Problems:
    """The problems found so far. After `MAX_PROBLEMS` the rest is only counted."""

    def __init__(self) -> None:
        self._found: list[Problem] = []
        self._more = 0
        self._warnings: dict[str, None] = {}

    def add(self, plan_path: PlanPath, reason: str, message: str) -> None:
        if len(self._found) < MAX_PROBLEMS:
            self._found.append(Problem(place=str(plan_path), reason=reason, message=message))
        else:
            self._more += 1

    def warn(self, plan_path: PlanPath, message: str) -> None:
        """Notes something that changes no result, but that the plan's author may want to know. Each warning is kept
        once.
        """
        if len(self._warnings) < MAX_PROBLEMS:
            self._warnings[f"{plan_path}: {message}"] = None

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
            problems = [*problems, Problem(place="", reason="TOO_MANY_PROBLEMS", message=f"{self._more} more problems")]
        raise PlanError(*problems)
