"""Chooses the implementation that a function's use means, among all that take its arguments.

The implementations are tried in this order:

1. the one that the plan names outright (an official file and an official compound name), if the arguments fit;
2. those that the plan's producer means by a name without a file (`producer_meanings`);
3. those of that name in the file the plan names, then in every file;
4. the official forms of a producer's own name (`aliases`).

Within 2, 3 and 4 the best one narrows no argument, then gives the result type that the plan declares, then asks for the
cheapest conversions of its arguments, then says most about their types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from .. import ir
from ..ir import types as t
from ..ir.types import Type
from . import aliases, coercion, registry
from .aliases import Alias, Argument, type_of
from .argument_types import fit, match_types
from .derivation import READS_ARGUMENT
from .patterns import is_remembered
from .producer_meanings import meanings
from .registry import Implementation
from .result_types import castable, literal_values, result_type

_LAST_RESORT: Final = "functions_aggregate_decimal_output"  # the same names again, with decimals where i64 would do
_LONGEST_WORD: Final = 32  # longer than any name of a unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """An implementation, and the types of its arguments (`targets`): None for enums and lambdas."""

    implementation: Implementation
    targets: tuple[Type | None, ...]
    derived: Type
    alias: Alias | None
    rank: tuple[int, ...]


_KNOWN: Final[dict[tuple[object, ...], Choice]] = {}
_MOST_KNOWN: Final = 4096


def choose_overload(
    kind: ir.FunctionKind,
    base: str,
    compound: str | None,
    file: str | None,
    arguments: Sequence[Argument],
    output: Type | None,
    dialect: str,
) -> Choice | None:
    """The best candidate, remembered where no type is nested: plans repeat themselves, and trying twenty overloads
    takes a millisecond.
    """
    reads = _reads(kind, base, dialect)
    kinds = tuple(_kind_of_argument(argument, reads) for argument in arguments)
    remembers = all(map(is_remembered, (output, *map(type_of, arguments))))
    key = (kind, base, compound, file, kinds, output, dialect) if remembers else ()
    known = _KNOWN.get(key)
    if known is None:
        candidates = list(_candidates(kind, base, compound, file, arguments, output, dialect))
        if not candidates:
            return None
        known = min(candidates, key=lambda candidate: candidate.rank)
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        if remembers:
            _KNOWN[key] = known
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reads:
    """The values of literals that a choice depends on: of integers, where a result type has one in it, and of texts,
    where a producer's own function has a word in it. Elsewhere calls with other values share a choice.
    """

    integers: bool
    texts: bool


@lru_cache(maxsize=1024)
def _reads(kind: ir.FunctionKind, base: str, dialect: str) -> _Reads:
    others = (*meanings(dialect, kind, base), *aliases.aliases(kind, base))
    results = (
        implementation.result
        for name in (base, *(alias.name for alias in others))
        for implementation in registry.implementations(kind, name)
    )
    return _Reads(integers=any(READS_ARGUMENT in result for result in results), texts=bool(others))


def _kind_of_argument(argument: Argument, reads: _Reads) -> object:
    """The part of an argument that a choice depends on: its type, and for a literal also its value or its kind."""
    if not isinstance(argument, ir.Literal):
        return argument if isinstance(argument, str) else type_of(argument)
    match argument.value:
        case None:
            return argument.type, None
        case int(value):
            return argument.type, value if reads.integers else len(str(abs(value)))
        case str(text) if reads.texts:
            return argument.type, text[:_LONGEST_WORD]
        case _:
            return argument.type, True


def _candidates(
    kind: ir.FunctionKind,
    base: str,
    compound: str | None,
    file: str | None,
    arguments: Sequence[Argument],
    output: Type | None,
    dialect: str,
) -> Iterator[Choice]:
    meant = list(_renamed(meanings(dialect, kind, base), kind, arguments, output))
    if meant:
        yield from meant
        return
    named = registry.implementations(kind, base, file) if file else ()
    outright = [implementation for implementation in named if implementation.signature == compound]
    for implementations in (outright, named, registry.implementations(kind, base)):
        fitting = list(_fitting(implementations, arguments, compound, output, None))
        if fitting:
            yield from fitting
            return
    yield from _renamed(aliases.aliases(kind, base), kind, arguments, output)


def _renamed(
    forms: Iterable[Alias], kind: ir.FunctionKind, arguments: Sequence[Argument], output: Type | None
) -> Iterator[Choice]:
    for alias in forms:
        arranged = alias.arrange(arguments)
        if arranged is not None:
            yield from _fitting(registry.implementations(kind, alias.name), arranged, None, output, alias)


def _fitting(
    implementations: Iterable[Implementation],
    arguments: Sequence[Argument],
    compound: str | None,
    output: Type | None,
    alias: Alias | None,
) -> Iterator[Choice]:
    for order, implementation in enumerate(implementations):
        fitted = fit(implementation, arguments)
        if fitted is None:
            continue
        targets, cost = fitted
        types = tuple(target or type_of(argument) for target, argument in zip(targets, arguments, strict=True))
        bindings = match_types(implementation, types)
        if bindings is None:
            continue
        derived = result_type(implementation, types, bindings, literal_values(implementation, arguments))
        rank = (
            cost >= coercion.NARROWING,
            _distance(derived, output),
            cost,
            implementation.file == _LAST_RESORT,
            implementation.signature != compound,
            sum(p.pattern is not None and p.pattern.is_any for p in implementation.parameters),
            order,
        )
        yield Choice(implementation=implementation, targets=targets, derived=derived, alias=alias, rank=rank)


def _distance(derived: Type, output: Type | None) -> int:
    if output is None or coercion.same(derived, output):
        return 0
    if isinstance(derived, t.Decimal) and isinstance(output, t.Decimal):
        return 0
    return 1 if castable(derived, output) else 2
