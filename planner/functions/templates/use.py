"""What a template sees of one use of a function, and how templates are entered in the table.

A template turns the arguments' SQL into the function's SQL, of exactly the result's type. Two things it must not do:
mention a long argument twice (nested uses would grow exponentially: `let` names it instead), and swallow an option.

A decimal may have fewer digits in SQL than its type says, with the same scale: what DuckDB's own arithmetic gives is
often a digit narrower than Substrait's rule, and a cast on every row costs more than it tells.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias

from ....proto.errors import PlanError, Problem
from ...ir import quote
from ...ir.arrow_types import sql_type
from ...ir.types import Type
from ..patterns import ArgumentType, Signature

_ATOM: Final = re.compile(r"[\w.\"]+|'[^']{0,40}'|CAST\('?[-\w.: ]{0,40}'? AS [\w(), ]{0,24}\)")

AggregateCall: TypeAlias = Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use. `arguments` are SQL, or an enum argument's value; `types` are theirs, None for an enum.

    `choices` has one supported value for every option the implementation has: the plan's first supported
    preference, or the table's default. `constants` has the values of arguments that are literals.
    """

    name: str
    arguments: tuple[str, ...]
    types: tuple[ArgumentType | None, ...]
    result: Type
    choices: Mapping[str, str]
    constants: tuple[object, ...] = ()
    place: str = ""
    aggregate: AggregateCall | None = None

    def type(self, index: int) -> Type:
        """The type of a value argument."""
        found = self.types[index]
        if found is None or isinstance(found, Signature):
            raise ValueError(f"argument {index} of {self.name} is not a value")
        return found

    def constant(self, index: int) -> object:
        """The value of an argument that is a literal; None for a null one and for everything else."""
        return self.constants[index] if index < len(self.constants) else None

    def refuse(self, why: str) -> NoReturn:
        """This use cannot be honoured, though others of the function can."""
        raise PlanError(Problem(place=self.place, reason="UNSUPPORTED_FUNCTION", message=f"{self.name}: {why}"))

    def cast(self, sql: str) -> str:
        """The SQL as the result's type."""
        return f"CAST({sql} AS {sql_type(self.result)})"

    def call(self, function: str, *arguments: str) -> str:
        """The named DuckDB aggregate or window function, with this use's DISTINCT, ORDER BY, FILTER and OVER."""
        if self.aggregate is None:
            raise ValueError(f"{self.name} is used as a scalar function")
        return self.aggregate(function, *arguments)


def let(sql: str, body: Callable[[str], str]) -> str:
    """`body(sql)`, with `sql` named first when it is more than a column or a constant.

    The name is a parameter of a one-element list's lambda: it evaluates once, and where CASE says so not at all.
    It is made from what it names, so nested uses cannot take one for another.
    """
    return let_all([sql], lambda names: body(names[0]))


def let_all(sqls: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of several values, each named where it is long."""
    names = [sql if _ATOM.fullmatch(sql) else _name(sql) for sql in sqls]
    made = body(names)
    for sql, name in zip(reversed(sqls), reversed(names), strict=True):
        if name != sql:
            made = f"list_transform([{sql}], lambda {name}: {made})[1]"
    return made


def _name(sql: str) -> str:
    return "v" + hashlib.blake2s(sql.encode(), digest_size=8).hexdigest()


def error(message: str) -> str:
    """An expression that fails the statement with this message, of any type."""
    return f"error({quote.text(message)})"


Template: TypeAlias = Callable[[Use], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A function in the table. `options` has the supported values of each option, the default first, and
    `note` what a reader of the coverage table should know.
    """

    template: Template
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""


Table: TypeAlias = dict[tuple[str, str], Entry]
"""By extension file (without `functions_`) and function name."""
