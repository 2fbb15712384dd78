"""A template's view of one use of a function, and the table's entries.

A template turns the arguments' SQL into the function's SQL, of exactly the result's type. A template must not mention a
long argument twice (nested uses would grow exponentially: `let` names the argument instead), and must not swallow an
option.

A decimal may have fewer digits in SQL than its type says, with the same scale: the result of DuckDB's own arithmetic is
often a digit narrower than Substrait's rule, and a cast on every row would cost more than it is worth.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeAlias

from ....operators.core import quoting
from ....proto.errors import PlanError, Problem
from ...ir.arrow_types import sql_type
from ...ir.types import Type
from ..patterns import ArgumentType, Signature

_ATOM: Final = re.compile(r"[\w.\"]+|'[^']{0,40}'|CAST\('?[-\w.: ]{0,40}'? AS [\w(), ]{0,24}\)")

LONG: Final = 200
"""The characters of SQL from which on a value has a nest of other expressions inside."""
WRITTEN_OUT: Final = re.compile(
    r"\b(?:nullif|fmod|split_part|array_to_string|array_pop_back|list_contains)\(| IN \(| BETWEEN "
)
"""The SQL whose operands DuckDB writes out several times: macros, comparisons with several values."""

AggregateCall: TypeAlias = Callable[..., str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use of a function. `arguments` are SQL, or an enum argument's value; `types` are the arguments' types, None
    for an enum.

    `choices` has one supported value for every option that the implementation has: the plan's first supported
    preference, or the table's default. `constants` has the values of arguments that are literals.
    """

    name: str
    arguments: tuple[str, ...]
    types: tuple[ArgumentType | None, ...]
    result: Type
    choices: Mapping[str, str]
    constants: tuple[object, ...] = ()
    plan_path: str = ""
    aggregate: AggregateCall | None = None

    def type(self, index: int) -> Type:
        """The type of a value argument."""
        type_ = self.types[index]
        if type_ is None or isinstance(type_, Signature):
            raise ValueError(f"argument {index} of {self.name} is not a value")
        return type_

    def constant(self, index: int) -> object:
        """The value of an argument that is a literal; None for a null literal and for everything else."""
        return self.constants[index] if index < len(self.constants) else None

    def refuse(self, why: str) -> NoReturn:
        """Refuses this use of the function. Other uses of the function can be honoured."""
        raise PlanError(Problem(place=self.plan_path, reason="UNSUPPORTED_FUNCTION", message=f"{self.name}: {why}"))

    def cast(self, sql: str) -> str:
        """The SQL as the result's type."""
        return f"CAST({sql} AS {sql_type(self.result)})"

    def call(self, function: str, *arguments: str) -> str:
        """The named DuckDB aggregate or window function, with this use's DISTINCT, ORDER BY, FILTER and OVER."""
        if self.aggregate is None:
            raise ValueError(f"{self.name} is used as a scalar function")
        return self.aggregate(function, *arguments)


def maybe_null(use: Use, index: int) -> bool:
    """Tests whether an argument may be null."""
    return use.type(index).nullable and use.constant(index) is None


def let(sql: str, body: Callable[[str], str]) -> str:
    """`body(sql)`, with `sql` named first if it is more than a column or a constant.

    The name is a parameter of a one-element list's lambda: DuckDB evaluates the value once, or not at all if a CASE
    skips it. The name is made from the value's SQL, so nested uses cannot confuse names.
    """
    return let_all([sql], lambda names: body(names[0]))


def let_all(sqls: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of several values. Each long value gets a name."""
    names = [sql if _ATOM.fullmatch(sql) else _name(sql) for sql in sqls]
    return _around(sqls, names, body(names))


def let_long(sqls: Sequence[str], body: Callable[[Sequence[str]], str], where: re.Pattern[str] | None = None) -> str:
    """`body` of values that DuckDB writes out several times, if `where` is in it. Each long value gets a name: a nest
    of them would double with each level, and twenty levels take minutes to plan. A body with a subquery has no names:
    DuckDB has no subqueries in lambdas.
    """
    names = [_name(sql) if len(sql) > LONG else sql for sql in sqls]
    inside = body(names)
    if names == [*sqls]:
        return inside
    is_written_out = where is None or where.search(inside) is not None
    return _around(sqls, names, inside) if is_written_out and "SELECT" not in inside else body(sqls)


def _around(sqls: Sequence[str], names: Sequence[str], inside: str) -> str:
    """What is made of the names, with their values around it."""
    for sql, name in zip(reversed(sqls), reversed(names), strict=True):
        if name != sql:
            inside = f"list_transform([{sql}], lambda {name}: {inside})[1]"
    return inside


def _name(sql: str) -> str:
    return "v" + hashlib.blake2s(sql.encode(), digest_size=8).hexdigest()


def error(message: str) -> str:
    """An expression that fails the statement with this message, of any type."""
    return f"error({quoting.text(message)})"


Template: TypeAlias = Callable[[Use], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """A function in the table. `options` has the supported values of each option, the default first; `note` is a remark
    for the coverage table. With `may_be_null` the result may be null where the extension's type says that it is not.
    """

    template: Template
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""
    may_be_null: bool = False


Table: TypeAlias = dict[tuple[str, str], Entry]
"""Entries by extension file (without `functions_`) and function name."""
