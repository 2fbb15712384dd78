"""Positions in a plan: paths of protobuf field names and list indices.

`relations[0].root.input.join.expression.scalar_function.arguments[1].value.literal`
"""

from __future__ import annotations

from typing import NamedTuple

_HEAD = 1000
_TAIL = 1000


class PlanPath:
    """A path into a plan; `path / "step"` goes down. A path never changes.

    A path's text stays shorter than about 2,000 characters, however deep the plan is: every node of the plan carries
    one, and error details have to fit in a header. A longer text leaves out its middle, whole steps at a time, and
    counts the steps left out. Most paths are never written: only their texts would take long to make.
    """

    __slots__ = ("_above", "_step", "_text")

    def __init__(self, step: str = "", above: PlanPath | None = None) -> None:
        self._step = step
        self._above = above
        self._text: _Text | None = None

    def __truediv__(self, step: str) -> PlanPath:
        return PlanPath(step, self)

    def at(self, field: str, index: int) -> PlanPath:
        """Element `index` of the repeated field `field`."""
        return PlanPath(f"{field}[{index}]", self)

    def __str__(self) -> str:
        unwritten: list[PlanPath] = []
        path: PlanPath | None = self
        while path is not None and path._text is None:
            unwritten.append(path)
            path = path._above
        text = _Text() if path is None or path._text is None else path._text
        for below in reversed(unwritten):
            text = below._text = text.longer(below._step) if below._step else text
        return text.written()


class _Text(NamedTuple):
    """The text of a path: its beginning, the number of steps left out, and its end."""

    head: str = ""
    skipped: int = 0
    tail: str = ""

    def longer(self, step: str) -> _Text:
        if not self.tail:
            text = f"{self.head}.{step}" if self.head else step
            return _Text(text) if len(text) <= _HEAD else _Text(self.head, 0, step)
        tail = f"{self.tail}.{step}"
        if len(tail) <= _TAIL:
            return _Text(self.head, self.skipped, tail)
        steps = tail.split(".")
        half = len(steps) // 2
        return _Text(self.head, self.skipped + half, ".".join(steps[half:]))

    def written(self) -> str:
        if not self.tail:
            return self.head
        between = f".({self.skipped} steps)." if self.skipped else "."
        return f"{self.head}{between}{self.tail}"
