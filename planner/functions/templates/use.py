"""A template's view of one use of a function, and the table's entries.

A template turns the arguments' SQL into the function's SQL, of exactly the result's type. A template must not mention a
long argument twice (nested uses would grow exponentially: `named_values.let` names the argument instead), and must not
swallow an option.

A decimal may have fewer digits in SQL than its type says, with the same scale: the result of DuckDB's own arithmetic is
often a digit narrower than Substrait's rule, and a cast on every row would cost more than it is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NoReturn, TypeAlias

from ....operators.core import quoting
from ....proto.errors import PlanError, Problem
from ...ir.arrow_types import sql_type
from ...ir.types import Type
from ..patterns import ArgumentType, Signature
from .named_values import let, let_all

AggregateCall: TypeAlias = Callable[..., str]

LONGEST_FORMAT: Final = 1_000
"""The characters of a format of dates and times."""
_WORD: Final = r"'[\s\v]*-?(inf|infinity|epoch)[\s\v]*'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One use of a function. `arguments` are SQL, or an enum argument's value; `types` are the arguments' types, None
    for an enum.

    `choices` has one supported value for every option that the implementation has: the plan's first supported
    preference, or the table's default. `constants` has the values of arguments that are literals. An aggregate is
    `ordered` where the plan sorts its input.
    """

    name: str
    arguments: tuple[str, ...]
    types: tuple[ArgumentType | None, ...]
    result: Type
    choices: Mapping[str, str]
    constants: tuple[object, ...] = ()
    plan_path: str = ""
    aggregate: AggregateCall | None = None
    ordered: bool = False

    def type(self, index: int) -> Type:
        """The type of a value argument."""
        type_ = self.types[index]
        if type_ is None or isinstance(type_, Signature):
            raise ValueError(f"argument {index} of {self.name} is not a value")
        return type_

    def constant(self, index: int) -> object:
        """The value of an argument that is a literal; None for a null literal and for everything else."""
        return self.constants[index] if index < len(self.constants) else None

    def constant_format(self) -> str:
        """The format of a date or time, which is the second argument. DuckDB takes none from a column, and cannot be
        stopped while it works through a long one for the rows that it computes at once.
        """
        known = self.constant(1)
        if not isinstance(known, str):
            self.refuse("the format must be a constant")
        if len(known) > LONGEST_FORMAT:
            self.refuse(f"the format has {len(known):,} characters; at most {LONGEST_FORMAT:,} are allowed")
        return known

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


def error(message: str) -> str:
    """An expression that fails the statement with this message, of any type."""
    return f"error({quoting.text(message)})"


def readable_moment(sql: str) -> str:
    """A text that is to be read as a date or time; in quotation marks, so that no cast or format reads it, if it is one
    of the words that DuckDB reads as moments though they are none.
    """
    return let(sql, lambda x: f"CASE WHEN regexp_full_match({x}, {_WORD}, 'i') THEN '\"' || {x} || '\"' ELSE {x} END")


Template: TypeAlias = Callable[[Use], str]


def nulls_first(template: Template) -> Template:
    """`template`, whose SQL is not computed where an argument is null. It would fail there for the value of another
    argument, or have a value.
    """

    def checked(use: Use) -> str:
        nullable = [at for at, type_ in enumerate(use.types) if type_ is not None and maybe_null(use, at)]
        if not nullable:
            return template(use)

        def of_names(names: tuple[str, ...]) -> str:
            nulls = " OR ".join(f"{names[at]} IS NULL" for at in nullable)
            return f"CASE WHEN {nulls} THEN NULL ELSE {template(replace(use, arguments=names))} END"

        return let_all(use.arguments, lambda names: of_names(tuple(names)))

    return checked


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
