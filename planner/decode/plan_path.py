"""Positions in a plan: paths of protobuf field names and list indices.

`relations[0].root.input.join.expression.scalar_function.arguments[1].value.literal`
"""

from __future__ import annotations

from typing import NamedTuple

_HEAD = 1000
_TAIL = 1000


class PlanPath(NamedTuple):
    """A path into a plan; `path / "step"` goes down.

    A path stays shorter than about 2,000 characters, however deep the plan is: every node of the plan carries a path,
    and error details have to fit in a header. A longer path leaves out its middle, whole steps at a time, and counts
    the steps left out.
    """

    head: str = ""
    skipped: int = 0
    tail: str = ""

    def __truediv__(self, step: str) -> PlanPath:
        if self.tail:
            return self._longer(f"{self.tail}.{step}")
        text = f"{self.head}.{step}" if self.head else step
        if len(text) <= _HEAD:
            return PlanPath(text)
        return PlanPath(self.head, 0, step)

    def at(self, field: str, index: int) -> PlanPath:
        """Element `index` of the repeated field `field`."""
        return self / f"{field}[{index}]"

    def _longer(self, tail: str) -> PlanPath:
        if len(tail) <= _TAIL:
            return PlanPath(self.head, self.skipped, tail)
        steps = tail.split(".")
        half = len(steps) // 2
        return PlanPath(self.head, self.skipped + half, ".".join(steps[half:]))

    def __str__(self) -> str:
        if not self.tail:
            return self.head
        between = f".({self.skipped} steps)." if self.skipped else "."
        return f"{self.head}{between}{self.tail}"
