"""The loops around a relation that is being decoded."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .. import ir
from .poison import is_unknown


@dataclass(slots=True, eq=False)
class OpenLoop:
    """A loop whose body is being decoded.

    `schema` is the known part of the loop's schema: None if not even the number of columns is known; single types may
    be unknown too. `references` counts the references found.
    """

    number: int
    name: str
    schema: ir.Schema | None
    references: int = 0


class Loops:
    """The enclosing loops, by name. A name means the innermost loop of that name.

    `schemas` has the known schema of each loop, by the number of the body's message: if an outer loop's body is decoded
    again, the schema is not worked out anew.
    """

    def __init__(self) -> None:
        self.schemas: dict[int, ir.Schema] = {}
        self._open: tuple[OpenLoop, ...] = ()
        self._numbers = itertools.count()

    def next_number(self) -> int:
        """A number that no other loop of the plan has."""
        return next(self._numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """The loops' names, outermost first."""
        return tuple(loop.name for loop in self._open)

    @property
    def guessing(self) -> bool:
        """Tests whether the schema of an enclosing loop is not known yet."""
        return any(loop.schema is None or any(map(is_unknown, loop.schema)) for loop in self._open)

    def named(self, name: str) -> OpenLoop | None:
        return next((loop for loop in reversed(self._open) if loop.name == name), None)

    @contextmanager
    def inside(self, loop: OpenLoop) -> Iterator[None]:
        """The context in which the body of `loop` is decoded."""
        around, self._open = self._open, (*self._open, loop)
        try:
            yield
        finally:
            self._open = around

    @contextmanager
    def out_of_all(self) -> Iterator[None]:
        """The context in which something outside of all loops is decoded for a relation inside of a loop."""
        around, self._open = self._open, ()
        try:
            yield
        finally:
            self._open = around
