"""Bounds on the bytes that functions make, from the lengths of their arguments.

DuckDB computes 2,048 rows of an expression at once and does not count what it makes of them. A bound on the bytes of a
row is a sum over lengths of columns and over numbers, which cost little to look at before a value exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ..ir import types as t
from ..ir.types import Type

ITEM: Final = 16
"""The bytes that a value counts for in a list, beside its text. A number has no more."""

_SHORT: Final = 256
"""A text of so many characters or fewer counts for a constant: its true length is not worth looking at."""
_CHARACTER: Final = 4
_MOST: Final = 1e15


@dataclass(slots=True)
class Size:
    """A number of bytes: a constant, multiples of terms in SQL (never null, never below 0), and `products` of such
    sums, in SQL. A sum takes over the terms of its parts: a part must not be used again.
    """

    constant: float = 0.0
    terms: dict[str, float] = field(default_factory=dict)
    products: list[str] = field(default_factory=list)
    scale: float = 1.0
    """The factor of all `terms` and `products`."""

    @property
    def is_constant(self) -> bool:
        return not self.terms and not self.products

    @property
    def factor(self) -> float:
        """The most bytes for a byte of any one term."""
        return min(max(self.terms.values(), default=0.0) * self.scale, _MOST)

    def plus(self, other: Size) -> Size:
        """The sum."""
        large, small = (self, other) if len(self.terms) >= len(other.terms) else (other, self)
        large.constant = min(large.constant + small.constant, _MOST)
        by = small.scale / large.scale
        for term, times in small.terms.items():
            large.terms[term] = min(large.terms.get(term, 0.0) + times * by, _MOST)
        for product in small.products:
            large.products.append(product if by == 1 else f"({product})*{number(by)}")
        return large

    def times(self, factor: float, more: float = 0.0) -> Size:
        """The product with a number that is not 0, and a constant."""
        self.constant = min(self.constant * factor + more, _MOST)
        self.scale = min(self.scale * factor, _MOST)
        return self

    def by(self, other: Size) -> Size:
        """The product."""
        if other.is_constant or self.is_constant:
            one, number = (self, other.constant) if other.is_constant else (other, self.constant)
            return one.times(number) if number else Size()
        return Size(products=[f"({self.sql()})*({other.sql()})"])

    def copy(self) -> Size:
        return Size(self.constant, dict(self.terms), list(self.products), self.scale)

    def sql(self) -> str:
        """The number as a DOUBLE."""
        terms = [f"{number(min(times * self.scale, _MOST))}*{term}" for term, times in self.terms.items()]
        products = [f"({product})*{number(self.scale)}" for product in self.products]
        return "+".join([number(self.constant), *terms, *products])


def number(value: float) -> str:
    """A DOUBLE in SQL, where 1.5 is a decimal."""
    text = f"{value:.17g}"
    return text if "e" in text else f"{text}e0"


def total(sizes: Sequence[Size]) -> Size:
    result = Size()
    for size in sizes:
        result = result.plus(size)
    return result


def _above(number: str) -> Size:
    return Size(products=[f"greatest({number},0e0)"])


@dataclass(frozen=True, slots=True)
class Grown:
    """The arguments of a call. `sizes` are their bytes, `constants` the values of literals. `number` gives the SQL of a
    whole number, as a DOUBLE that is never null.
    """

    sizes: Sequence[Size]
    constants: Sequence[object]
    number: Callable[[int], str]

    def constant(self, index: int) -> object:
        return self.constants[index]

    def times(self, index: int) -> Size:
        """A whole number, 0 in place of those below."""
        value = self.constants[index]
        return Size(max(float(value), 0.0)) if isinstance(value, int) else _above(self.number(index))

    def text(self, index: int) -> str | None:
        value = self.constant(index)
        return value if isinstance(value, str) else None


Rule: TypeAlias = Callable[[Grown], Size]


@dataclass(frozen=True, slots=True)
class Sum:
    """So many bytes for each byte of the arguments, and `more`."""

    factor: float = 1.0
    more: float = 0.0

    def __call__(self, use: Grown) -> Size:
        return total(use.sizes).times(self.factor, self.more)


def _constant(size: float) -> Rule:
    return lambda _: Size(size)


def _part(use: Grown) -> Size:
    """A part of so many characters, which the last argument says."""
    count = use.constant(len(use.sizes) - 1) if len(use.sizes) > 1 else None
    return Size(float(_CHARACTER * count)) if isinstance(count, int) and 0 <= count <= _SHORT else use.sizes[0]


def _padded(use: Grown) -> Size:
    return use.times(1).times(_CHARACTER)


def _centered(use: Grown) -> Size:
    return use.sizes[0].plus(use.sizes[2].by(use.times(1)))


def _repeated(use: Grown) -> Size:
    return use.sizes[0].by(use.times(1))


def _replaced(use: Grown) -> Size:
    x, _, new = use.sizes
    old_text, new_text = use.text(1), use.text(2)
    if old_text is not None and new_text is not None:
        return x.times(max(len(new_text.encode()) / max(len(old_text.encode()), 1), 1.0))
    return x.copy().plus(x.by(new))


def _matched_and_replaced(*, every: bool) -> Rule:
    """A replacement by a pattern. Each reference to a group may stand for all of the match."""

    def rule(use: Grown) -> Size:
        x, new, new_text = use.sizes[0], use.sizes[2], use.text(2)
        if new_text is None:
            return x.copy().plus(new.copy()).plus(x.by(new))
        length, references = len(new_text.encode()), new_text.count("\\")
        return x.times(1.0 + references + (length if every else 0), float(length))

    return rule


def _later_replaced(use: Grown) -> Size:
    """The same; for a later match, lists of all matches and of the parts between them too."""
    replaced = _matched_and_replaced(every=False)(use)
    first = len(use.sizes) < 5 or use.constant(4) in (0, 1)
    return replaced if first else replaced.plus(use.sizes[0].times(4.0 * ITEM))


def _joined(use: Grown) -> Size:
    """The texts of a list, with a text between each two of them."""
    items, separator = use.sizes[0], use.sizes[1]
    between = separator.plus(use.sizes[2]) if len(use.sizes) > 2 else separator
    return items.copy().times(3.0).plus(items.times(1 / ITEM).by(between))


def _copies(use: Grown) -> Size:
    return use.sizes[0].times(1.0, float(ITEM)).by(use.times(1))


def _resized(use: Grown) -> Size:
    return use.sizes[0].plus(use.sizes[2].times(1.0, float(ITEM)).by(use.times(1)))


def _range(use: Grown) -> Size:
    """Whole numbers from 0, or from the first argument, to the next one, or back to it in steps below 0."""
    if len(use.sizes) == 1:
        count = use.times(0)
    else:
        length = f"({use.number(1)}-{use.number(0)})"
        count = _above(length if len(use.sizes) == 2 else f"abs({length})")
    return count.times(float(ITEM), 2.0 * ITEM)


def _compared_in_pairs(use: Grown) -> Size:
    """Every item is compared with every other one, 2,048 of them at once."""
    sizes = total(use.sizes)
    return sizes.copy().times(2.0).plus(sizes.times(2_048 / ITEM**2))


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("datetime", "strftime"): Sum(32.0, 64.0),
    ("moments", "to_char"): Sum(32.0, 64.0),
    ("moments", "iso_text"): _constant(64.0),
    ("string", "substring"): _part,
    ("string", "left"): _part,
    ("string", "right"): _part,
    **dict.fromkeys([("text", name) for name in ("left_long", "right_long")], _part),
    **dict.fromkeys([("text", f"substring_{name}") for name in ("long", "from_zero")], _part),
    **dict.fromkeys([("string", name) for name in ("lower", "upper", "capitalize")], Sum(1.5, 4.0)),
    **dict.fromkeys([("string", name) for name in ("swapcase", "initcap", "title")], Sum(3.0 * ITEM)),
    **dict.fromkeys(
        [("string", name) for name in ("count_substring", "regexp_count_substring", "string_split")],
        Sum(2.0 * ITEM, 2.0 * ITEM),
    ),
    **dict.fromkeys(
        [("string", f"regexp_{name}") for name in ("match_substring", "match_substring_all", "string_split")],
        Sum(2.0 * ITEM, 2.0 * ITEM),
    ),
    ("string", "repeat"): _repeated,
    ("string", "lpad"): _padded,
    ("string", "rpad"): _padded,
    ("string", "center"): _centered,
    ("string", "replace"): _replaced,
    ("string", "regexp_replace"): _later_replaced,
    ("string", "regexp_strpos"): Sum(4.0 * ITEM, 4.0 * ITEM),
    ("text", "regexp_replace_flagged"): _matched_and_replaced(every=True),
    ("text", "translate"): Sum(float(_CHARACTER)),
    ("text", "encode"): Sum(2.0, 4.0),
    ("text", "decode"): Sum(2.0, 4.0),
    **dict.fromkeys(
        [("text", name) for name in ("digest", "md5", "sha224", "sha256", "sha384", "sha512", "to_hex", "chr")],
        _constant(64.0),
    ),
    ("text", "upper_full"): Sum(3.0 * ITEM),
    ("text", "lower_full"): Sum(3.0, 4.0),
    ("text", "readable"): Sum(3.0, 64.0),
    ("numbers", "float_text"): _constant(512.0),
    **dict.fromkeys(
        [("text", name) for name in ("initcap_words", "substr_index", "regexp_count", "regexp_match", "find_in_set")],
        Sum(3.0 * ITEM, 2.0 * ITEM),
    ),
    ("list", "transform"): Sum(1.0, float(ITEM)),
    ("lists", "array_to_string"): _joined,
    ("lists", "array_repeat"): _copies,
    ("lists", "array_resize"): _resized,
    ("lists", "range"): _range,
    ("lists", "generate_series"): _range,
    ("lists", "arrays_zip"): Sum(3.0),
    ("lists", "map"): Sum(2.0),
    ("lists", "map_entries"): Sum(3.0),
    ("lists", "string_to_array"): Sum(2.0 * ITEM, 2.0 * ITEM),
    **dict.fromkeys(
        [("lists", f"array_{name}") for name in ("distinct", "except", "intersect", "union", "has_all", "has_any")],
        _compared_in_pairs,
    ),
}
"""The rules of functions by extension file (without `functions_`) and name. Any other function makes no more than its
arguments together, or a value of fixed width.
"""

_OTHERS: Final = Sum(1.0, 64.0)
_VARIABLE: Final = frozenset({t.String, t.VarChar, t.FixedChar, t.Binary, t.FixedBinary, t.List, t.Map})


def rule_of(file: str, name: str, result: Type) -> Rule | None:
    """The rule of a function; None where it makes values of fixed width alone."""
    rule = RULES.get((file.removeprefix("functions_"), name))
    return rule or (_OTHERS if is_variable(result) else None)


def is_variable(type_: Type) -> bool:
    """Tests whether values of the type are of any length."""
    return type(type_) in _VARIABLE or (isinstance(type_, t.Struct) and any(map(is_variable, type_.fields)))
