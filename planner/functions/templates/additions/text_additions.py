"""Texts: parts, hashes, encodings, patterns with flags."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from .....operators.python_functions import EDIT_DISTANCE, EDIT_DISTANCE_STEPS, LIKE, SHA2
from ....ir import types as t
from ..named_values import let, let_all
from ..strings import bounded_like
from ..use import Entry, Table, Template, Use, error
from .list_additions import joined

_LONGEST: Final = 2**31 - 1
"""More characters than a text has. DuckDB's functions fail for far larger numbers of them."""
_HASHES: Final = {
    "md5": "from_hex(md5({x}))",
    "sha224": f"{SHA2}('sha224', encode({{x}}))",
    "sha256": "from_hex(sha256({x}))",
    "sha384": f"{SHA2}('sha384', encode({{x}}))",
    "sha512": f"{SHA2}('sha512', encode({{x}}))",
}
_SEVERAL: Final = {
    letter: upper for letter in map(chr, range(0x80, 0x10000)) if len(upper := letter.upper()) > 1 and letter.islower()
}
"""The letters whose upper case is several letters."""

_SHORT: Final = 256
"""The most bytes of the texts whose distance DuckDB computes."""


def _call(function: str) -> Template:
    return lambda use: use.cast(f"{function}({', '.join(use.arguments)})")


def _word(use: Use, index: int, what: str) -> str:
    """The value of an argument that must be a constant."""
    constant = use.constant(index)
    if not isinstance(constant, str):
        use.refuse(f"the {what} must be a constant")
    return constant


def _hash(algorithm: str) -> Template:
    return lambda use: _HASHES[algorithm].format(x=use.arguments[0])


def _digest(use: Use) -> str:
    algorithm = _word(use, 1, "algorithm").lower()
    if algorithm not in _HASHES:
        use.refuse(f"the algorithm {algorithm} is not supported; there are: {', '.join(_HASHES)}")
    return _HASHES[algorithm].format(x=use.arguments[0])


def _from_hex(x: str) -> str:
    """The bytes of an even number of digits. DuckDB reads an odd one with a zero in front."""
    return f"CASE WHEN length({x}) % 2 = 1 THEN {error('hex of an odd number of digits')} ELSE from_hex({x}) END"


def _from_base64(x: str) -> str:
    """The bytes of a text, with or without the signs that fill it up. Its last digit has no bits beyond the last
    byte.
    """
    padded = f"from_base64(rpad({x}, ((length({x}) + 3) // 4 * 4)::INTEGER, '='))"
    failure = error("base64 whose last digit is not one that bytes end with")

    def exact(y: str) -> str:
        return f"CASE WHEN rtrim(to_base64({y}), '=') <> rtrim({x}, '=') THEN {failure} ELSE {y} END"

    return let(f"CASE WHEN length({x}) % 4 = 1 THEN {failure} ELSE {padded} END", exact)


_ENCODINGS: Final[dict[str, tuple[Callable[[str], str], Callable[[str], str]]]] = {
    "hex": (lambda x: f"lower(hex({x}))", lambda x: let(x, _from_hex)),
    "base64": (lambda x: f"rtrim(to_base64({x}), '=')", lambda x: let(x, _from_base64)),
}
"""Writer and reader of each encoding."""


def _encoding(use: Use) -> tuple[Callable[[str], str], Callable[[str], str]]:
    name = _word(use, 1, "encoding").lower()
    if name not in _ENCODINGS:
        use.refuse(f"the encoding {name} is not supported; there are: {', '.join(_ENCODINGS)}")
    return _ENCODINGS[name]


def _encode(use: Use) -> str:
    write, _ = _encoding(use)
    return write(use.arguments[0])


def _decode(use: Use) -> str:
    _, read = _encoding(use)
    return read(f"decode({use.arguments[0]})" if isinstance(use.type(0), t.Binary) else use.arguments[0])


def _position_in_list(use: Use) -> str:
    x, list_ = use.arguments
    return use.cast(
        let_all(
            (x, list_),
            lambda v: (
                f"CASE WHEN {v[0]} IS NULL OR {v[1]} IS NULL THEN NULL"
                f" ELSE coalesce(list_position(string_split({v[1]}, ','), {v[0]}), 0) END"
            ),
        )
    )


def _initcap_words(use: Use) -> str:
    def capitalized(x: str) -> str:
        parts = f"regexp_extract_all({x}, '[\\p{{L}}\\p{{N}}]+|[^\\p{{L}}\\p{{N}}]+')"
        simple, full = (
            f"array_to_string(list_transform({parts}, lambda word: {first} || lower(substring(word, 2))), '')"
            for first in ("upper(left(word, 1))", _upper_letter("left(word, 1)"))
        )
        return f"CASE WHEN {_has_several(x)} THEN {full} ELSE {simple} END"

    return let(use.arguments[0], capitalized)


def _has_several(x: str) -> str:
    """Tests whether a letter's upper case is several letters."""
    return f"regexp_matches({x}, '[{''.join(_SEVERAL)}]')"


def _upper_letter(letter: str) -> str:
    names = ", ".join(f"'{lower}'" for lower in _SEVERAL)
    uppers = ", ".join(f"'{upper}'" for upper in _SEVERAL.values())
    return f"coalesce(map_extract_value(map([{names}], [{uppers}]), {letter}), upper({letter}))"


def _like_escaped(use: Use) -> str:
    folds = use.choices["case_sensitivity"] == "CASE_INSENSITIVE"

    def short(v: Sequence[str]) -> str:
        return f"({v[0]} {'ILIKE' if folds else 'LIKE'} {v[1]} ESCAPE {v[2]})"

    def long(v: Sequence[str]) -> str:
        x, pattern, escape = v
        if not folds:
            return f"{LIKE}({x}, {pattern}, {escape})"
        failure = error("a letter as the escape character of a long pattern of ILIKE")
        sign = f"CASE WHEN lower({escape}) = upper({escape}) THEN {escape} ELSE {failure} END"
        return f"{LIKE}(lower({x}), lower({pattern}), {sign})"

    return bounded_like(use, use.arguments, short, long)


def _levenshtein(use: Use) -> str:
    """The distance in characters. DuckDB's counts bytes, which are as many where all characters are ASCII's, and cannot
    be stopped, so it gets short texts alone.
    """

    def distance(v: Sequence[str]) -> str:
        x, y = v
        few = " AND ".join(f"strlen({text}) = length({text}) AND strlen({text}) <= {_SHORT}" for text in (x, y))
        return f"CASE WHEN {few} THEN levenshtein({x}, {y}) ELSE {EDIT_DISTANCE}({x}, {y}) END"

    return let_all(use.arguments, distance)


def _overlay(use: Use) -> str:
    x, new, start, *length = use.arguments

    def overlaid(v: list[str]) -> str:
        text, new_text, first = v[0], v[1], f"least({v[2]}, {_LONGEST})"
        count = f"({_clamped(v[3])})" if len(v) > 3 else f"length({new_text})"
        return (
            f"CASE WHEN {' OR '.join(f'{name} IS NULL' for name in v)} THEN NULL"
            f" WHEN {first} < 1 THEN {error('overlay from a position below 1')}"
            f" ELSE left({text}, {first} - 1) || {new_text}"
            f" || substring({text}, CASE WHEN {first} + {count} < 1 THEN 1 ELSE {first} + {count} END) END"
        )

    return let_all((x, new, start, *length), lambda v: overlaid(list(v)))


def _clamped(count: str) -> str:
    return (
        f"CASE WHEN {count} > {_LONGEST} THEN {_LONGEST} WHEN {count} < -{_LONGEST} THEN -{_LONGEST} ELSE {count} END"
    )


def _end(function: str) -> Template:
    return lambda use: let_all(use.arguments, lambda v: f"{function}({v[0]}, {_clamped(v[1])})")


def _window(use: Use) -> str:
    """The characters of a window that begins before, in or behind the text."""

    def seen(x: str, start: str, *count: str) -> str:
        first = f"CASE WHEN {start} < 1 THEN 1 ELSE {_clamped(start)} END"
        if not count:
            return f"substring({x}, {first})"
        end = f"(CAST({start} AS HUGEINT) + {count[0]})"
        length = f"CASE WHEN {end} <= 1 OR {count[0]} <= 0 THEN 0 WHEN {start} < 1 THEN {end} - 1 ELSE {count[0]} END"
        return f"substring({x}, {first}, CAST({_clamped(f'({length})')} AS BIGINT))"

    return let_all(use.arguments, lambda v: seen(*v))


def _from_zero(use: Use) -> str:
    def seen(x: str, start: str, *count: str) -> str:
        first = f"CASE WHEN {start} < 0 THEN {start} ELSE CAST({start} AS BIGINT) + 1 END"
        return f"substring({', '.join((x, first, *count))})"

    return let_all(use.arguments, lambda v: seen(*v))


def _split_part(use: Use) -> str:
    """The part between separators at a position. A text has one part where the separator is empty."""
    if use.constant(1) and use.constant(2):
        return f"split_part({', '.join(use.arguments)})"
    failure = error("split_part of the position 0")

    def part(v: Sequence[str]) -> str:
        x, separator, n = v
        whole = f"CASE WHEN abs({n}) = 1 THEN {x} ELSE '' END"
        missing = " OR ".join(f"{name} IS NULL" for name in v)
        return (
            f"CASE WHEN {missing} THEN NULL WHEN {n} = 0 THEN {failure} WHEN {separator} = '' THEN {whole}"
            f" ELSE split_part({x}, {separator}, {n}) END"
        )

    return let_all(use.arguments, part)


def _before_separators(use: Use) -> str:
    def part(x: str, separator: str, count: str) -> str:
        parts = f"string_split({x}, {separator})"
        first, last = f"list_slice({parts}, 1, {count})", f"list_slice({parts}, {count}, -1)"
        chosen = joined(f"CASE WHEN {count} > 0 THEN {first} ELSE {last} END", separator)
        enough = f"CASE WHEN len({parts}) <= abs({count}) THEN {x} ELSE {chosen} END"
        missing = f"{x} IS NULL OR {separator} IS NULL OR {count} IS NULL"
        return f"CASE WHEN {missing} THEN NULL WHEN {count} = 0 OR {separator} = '' THEN '' ELSE {enough} END"

    return let_all(use.arguments, lambda names: part(*names))


def _upper_full(use: Use) -> str:
    """Upper case. DuckDB's gives one letter for each, so letters with several are replaced, where there are any."""

    def raised(x: str) -> str:
        letters = f"list_transform(string_split({x}, ''), lambda letter: {_upper_letter('letter')})"
        return f"CASE WHEN {_has_several(x)} THEN array_to_string({letters}, '') ELSE upper({x}) END"

    return let(use.arguments[0], raised)


def _lower_full(use: Use) -> str:
    """Lower case. DuckDB's knows neither the sigma at the end of a word nor the dotted capital I."""
    sigma = r"regexp_replace({x}, '(\p{{L}})Σ(\P{{L}}|$)', '\1ς\2', 'g')"

    def lowered(x: str) -> str:
        special = f"replace({sigma.format(x=x)}, 'İ', 'i\u0307')"
        return f"lower(CASE WHEN regexp_matches({x}, '[Σİ]') THEN {special} ELSE {x} END)"

    return let(use.arguments[0], lowered)


def _ascii(use: Use) -> str:
    return use.cast(let(use.arguments[0], lambda x: f"CASE WHEN {x} = '' THEN 0 ELSE unicode({x}) END"))


_CASE: Final = {"case_sensitivity": ("CASE_SENSITIVE", "CASE_INSENSITIVE")}

TABLE: Final[Table] = {
    ("text", "ascii"): Entry(_ascii),
    ("text", "chr"): Entry(lambda use: f"chr(CAST({use.arguments[0]} AS INTEGER))"),
    ("text", "digest"): Entry(_digest, note="md5, sha224, sha256, sha384 and sha512; the algorithm must be a constant"),
    ("text", "encode"): Entry(_encode, note="the encoding must be a constant"),
    ("text", "decode"): Entry(_decode, note="the encoding must be a constant"),
    ("text", "find_in_set"): Entry(_position_in_list),
    ("text", "initcap_words"): Entry(_initcap_words),
    ("text", "levenshtein"): Entry(
        _levenshtein, note=f"the lengths of the two texts, multiplied, may be {EDIT_DISTANCE_STEPS:,} at most"
    ),
    ("text", "like_escaped"): Entry(_like_escaped, _CASE),
    ("text", "lower_full"): Entry(_lower_full),
    ("text", "md5"): Entry(_call("md5")),
    ("text", "overlay"): Entry(_overlay),
    ("text", "left_long"): Entry(_end("left")),
    ("text", "right_long"): Entry(_end("right")),
    ("text", "substring_long"): Entry(_window),
    ("text", "substring_from_zero"): Entry(_from_zero),
    **{("text", name): Entry(_hash(name)) for name in ("sha224", "sha256", "sha384", "sha512")},
    ("text", "split_part"): Entry(_split_part),
    ("text", "substr_index"): Entry(_before_separators),
    ("text", "to_hex"): Entry(lambda use: f"lower(to_hex({use.arguments[0]}))"),
    ("text", "translate"): Entry(_call("translate")),
    ("text", "upper_full"): Entry(_upper_full),
}
