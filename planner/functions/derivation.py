"""Programs that compute a result type: lines of `name = expression`, then the type's pattern.

Expressions have whole numbers, names, `+ - *`, comparisons, `min`, `max` and `condition ? this : that`. Programs come
from the extension files alone, never from a plan.

`substrait.derivation_expression` is no substitute. In a trial it evaluated 48 of the official files' 66 programs, and
failed in 11 on types with parameters. The other 7 lacked bound types or an argument's value in the trial, which shows
no refusal. For the type of a decimal sum it takes 18 ms, 400 times as long as this module.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final

from ...proto.errors import PlanError, Problem
from ..ir.types import Type
from .patterns import Bindings, fill, parse

READS_ARGUMENT: Final = "integer_parameter"
"""The word of a program that reads the value of a literal argument."""

_TOKEN: Final = re.compile(r"\s*(\d+|[A-Za-z_]\w*|[<>=!]=|[-+*<>?:(),])")
_PRECEDENCE: Final[dict[str, int]] = {"<": 1, ">": 1, "<=": 1, ">=": 1, "==": 1, "!=": 1, "+": 2, "-": 2, "*": 3}
_OPERATORS: Final[dict[str, Callable[[int, int], int]]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}


def derive(program: str, bindings: Bindings, constants: Mapping[str, int]) -> Type:
    """The type that `program` gives. `constants` are the values of literal arguments, by argument name."""
    *assignments, pattern = [line.strip() for line in program.strip().splitlines()]
    numbers: dict[str, int] = {}
    for line in assignments:
        name, _, expression = line.partition("=")
        numbers[name.strip()] = _Evaluation(expression, {**bindings.numbers, **numbers}, constants).value
    return fill(parse(pattern), bindings, numbers)


class _Evaluation:
    """One expression, evaluated while it is read."""

    def __init__(self, text: str, names: Mapping[str, int], constants: Mapping[str, int]) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), ""]
        self._at = 0
        self._names = names
        self._constants = constants
        self.value = self._ternary()

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _ternary(self) -> int:
        condition = self._binary(1)
        if self._peek() != "?":
            return condition
        self._take()
        this = self._ternary()
        self._take()  # the colon
        that = self._ternary()
        return this if condition else that

    def _binary(self, least: int) -> int:
        left = self._primary()
        while _PRECEDENCE.get(self._peek(), 0) >= least:
            sign = self._take()
            left = _OPERATORS[sign](left, self._binary(_PRECEDENCE[sign] + 1))
        return left

    def _primary(self) -> int:
        word = self._take()
        if word.isdigit():
            return int(word)
        if word == "(":
            inner = self._ternary()
            self._take()
            return inner
        if self._peek() != "(":
            return self._names[word] if word in self._names else self._names[word.upper()]
        self._take()
        if word == READS_ARGUMENT:
            name = self._take()
            self._take()
            if name not in self._constants:
                raise PlanError(
                    Problem(
                        place="",
                        reason="UNSUPPORTED_ARGUMENT",
                        message=f"the argument {name} must be a literal and not null: the result's type depends on it",
                    )
                )
            return self._constants[name]
        values = [self._ternary()]
        while self._take() == ",":
            values.append(self._ternary())
        return {"min": min, "max": max}[word](values)
