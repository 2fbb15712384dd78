"""The loops that a relation being decoded is inside of."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .. import ir
from .poison import is_unknown


@dataclass(slots=True, eq=False)
class OpenLoop:
    """A loop whose body is being decoded. `schema` is what goes round as far as it is known: None where not even the
    number of columns is; single types may be unknown too. `references` counts those that were found.
    """

    number: int
    name: str
    schema: ir.Schema | None
    references: int = 0


class Loops:
    """Those around, by name; the innermost one of a name is meant.

    `found` is what is known to go round, by the number of the body's message: where a loop around has its body decoded
    again, more is not forgotten and found out anew.
    """

    def __init__(self) -> None:
        self.found: dict[int, ir.Schema] = {}
        self._open: tuple[OpenLoop, ...] = ()
        self._numbers = itertools.count()

    def next_number(self) -> int:
        """A number that no other loop of the plan has."""
        return next(self._numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """Outermost first."""
        return tuple(each.name for each in self._open)

    @property
    def guessing(self) -> bool:
        """Whether what goes round in one of them is not known yet."""
        return any(each.schema is None or any(map(is_unknown, each.schema)) for each in self._open)

    def named(self, name: str) -> OpenLoop | None:
        return next((each for each in reversed(self._open) if each.name == name), None)

    @contextmanager
    def inside(self, loop: OpenLoop) -> Iterator[None]:
        """While the body of `loop` is decoded."""
        around, self._open = self._open, (*self._open, loop)
        try:
            yield
        finally:
            self._open = around

    @contextmanager
    def out_of_all(self) -> Iterator[None]:
        """While something is decoded that stands in no loop, although a relation inside of one asks for it."""
        around, self._open = self._open, ()
        try:
            yield
        finally:
            self._open = around
