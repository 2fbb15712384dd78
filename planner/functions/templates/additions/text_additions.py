"""Texts: parts, hashes, encodings, patterns with flags."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from .....operators.core import quoting
from ....ir import types as t
from ..use import Entry, Table, Template, Use, error, let, let_all
from .list_additions import joined

_HASHES: Final = {
    "md5": "from_hex(md5({x}))",
    "sha256": "from_hex(sha256({x}))",
}
_SEVERAL: Final = {
    letter: upper for letter in map(chr, range(0x80, 0x10000)) if len(upper := letter.upper()) > 1 and letter.islower()
}
"""The letters whose upper case is several letters."""

_GROUP: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?!\?)|\(\?P?<(?![=!])", re.DOTALL)


def _call(function: str) -> Template:
    return lambda use: use.cast(f"{function}({', '.join(use.arguments)})")


def _word(use: Use, index: int, what: str) -> str:
    """The value of an argument that must be a constant."""
    constant = use.constant(index)
    if not isinstance(constant, str):
        use.refuse(f"the {what} must be a constant")
    return constant


def _digest(use: Use) -> str:
    algorithm = _word(use, 1, "algorithm").lower()
    if algorithm not in _HASHES:
        use.refuse(f"the algorithm {algorithm} is not supported; there are: {', '.join(_HASHES)}")
    return _HASHES[algorithm].format(x=use.arguments[0])


_ENCODINGS: Final[dict[str, tuple[Callable[[str], str], Callable[[str], str]]]] = {
    "hex": (lambda x: f"lower(hex({x}))", lambda x: f"from_hex({x})"),
    "base64": (
        lambda x: f"rtrim(to_base64({x}), '=')",
        lambda x: let(x, lambda v: f"from_base64(rpad({v}, (length({v}) + 3) // 4 * 4, '='))"),
    ),
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
    parts = f"regexp_extract_all({use.arguments[0]}, '[\\p{{L}}\\p{{N}}]+|[^\\p{{L}}\\p{{N}}]+')"
    capital = "upper(left(word, 1)) || lower(substring(word, 2))"
    return f"array_to_string(list_transform({parts}, lambda word: {capital}), '')"


def _like_escaped(use: Use) -> str:
    word = "ILIKE" if use.choices["case_sensitivity"] == "CASE_INSENSITIVE" else "LIKE"
    x, pattern, escape = use.arguments
    return f"({x} {word} {pattern} ESCAPE {escape})"


def _overlay(use: Use) -> str:
    x, new, start, *length = use.arguments

    def overlaid(v: list[str]) -> str:
        text, new_text, first = v[:3]
        count = v[3] if len(v) > 3 else f"length({new_text})"
        return (
            f"CASE WHEN {first} < 1 THEN {error('overlay from a position below 1')}"
            f" ELSE left({text}, {first} - 1) || {new_text}"
            f" || substring({text}, CASE WHEN {first} + {count} < 1 THEN 1 ELSE {first} + {count} END) END"
        )

    return let_all((x, new, start, *length), lambda v: overlaid(list(v)))


def _flags(use: Use, index: int, known: str) -> str:
    """The flags of a pattern, a constant, as far as they are known."""
    flags = _word(use, index, "flags") if len(use.arguments) > index else ""
    if odd := set(flags) - set(known):
        use.refuse(f"the flag {min(odd)!r} is not supported; there are: {', '.join(known)}")
    return "".join(dict.fromkeys(flags))


def _pattern(use: Use, flags: str) -> str:
    """The pattern with flags in front."""
    if not flags:
        return use.arguments[1]
    constant = use.constant(1)
    if isinstance(constant, str):
        return quoting.text(f"(?{flags}){constant}")
    return f"('(?{flags})' || {use.arguments[1]})"


def _regexp_like(use: Use) -> str:
    flags = _flags(use, 2, "ims") or ("i" if use.choices["case_sensitivity"] == "CASE_INSENSITIVE" else "")
    return f"regexp_matches({use.arguments[0]}, {_pattern(use, flags)})"


def _regexp_replace(use: Use) -> str:
    flags = _flags(use, 3, "gims")
    pattern = _pattern(use, flags.replace("g", ""))
    every = ", 'g'" if "g" in flags else ""
    return f"regexp_replace({use.arguments[0]}, {pattern}, {use.arguments[2]}{every})"


def _regexp_count(use: Use) -> str:
    x, _, *rest = use.arguments
    pattern = _pattern(use, _flags(use, 3, "ims"))
    if rest and use.constant(2) != 1:
        start = rest[0]
        before = error("regexp_count from a position below 1")
        x = f"substring({x}, {let(start, lambda s: f'CASE WHEN {s} < 1 THEN {before} ELSE {s} END')})"
    return f"len(regexp_extract_all({x}, {pattern}))"


def _regexp_instr(use: Use) -> str:
    """The length of the shortest text before a match, plus one."""
    known = use.constant(1)
    written = isinstance(known, str)
    before = quoting.text(f"(?s)^(.*?)(?:{known})") if written else f"('(?s)^(.*?)(?:' || {use.arguments[1]} || ')')"

    def position(x: str, pattern: str) -> str:
        first = f"length(regexp_extract({x}, {pattern}, 1)) + 1"
        return f"CASE regexp_matches({x}, {pattern}) WHEN true THEN {first} WHEN false THEN 0 END"

    if written:
        return let(use.arguments[0], lambda x: position(x, before))
    return let_all((use.arguments[0], before), lambda names: position(*names))


def _regexp_match(use: Use) -> str:
    pattern = _word(use, 1, "pattern")
    flags = _flags(use, 2, "ims")
    groups = sum(match.group().startswith("(") for match in _GROUP.finditer(pattern))
    written = quoting.text(f"(?{flags}){pattern}" if flags else pattern)
    numbers = range(1, groups + 1) if groups else range(1)

    def matched(x: str) -> str:
        parts = ", ".join(f"regexp_extract({x}, {written}, {number})" for number in numbers)
        return f"CASE WHEN regexp_matches({x}, {written}) THEN [{parts}] END"

    return let(use.arguments[0], matched)


def _split_part(use: Use) -> str:
    x, separator, part = use.arguments
    if isinstance(use.constant(2), int) and use.constant(2) != 0:
        return f"split_part({x}, {separator}, {part})"
    failure = error("split_part of the position 0")
    return let(part, lambda n: f"CASE WHEN {n} = 0 THEN {failure} ELSE split_part({x}, {separator}, {n}) END")


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
    letters = "".join(_SEVERAL)
    names = ", ".join(f"'{letter}'" for letter in _SEVERAL)
    uppers = ", ".join(f"'{upper}'" for upper in _SEVERAL.values())
    table = f"map([{names}], [{uppers}])"
    raised_letter = f"coalesce(map_extract_value({table}, letter), upper(letter))"

    def raised(x: str) -> str:
        slowly = f"array_to_string(list_transform(string_split({x}, ''), lambda letter: {raised_letter}), '')"
        return f"CASE WHEN regexp_matches({x}, '[{letters}]') THEN {slowly} ELSE upper({x}) END"

    return let(use.arguments[0], raised)


def _ascii(use: Use) -> str:
    return use.cast(let(use.arguments[0], lambda x: f"CASE WHEN {x} = '' THEN 0 ELSE unicode({x}) END"))


_CASE: Final = {"case_sensitivity": ("CASE_SENSITIVE", "CASE_INSENSITIVE")}

TABLE: Final[Table] = {
    ("text", "ascii"): Entry(_ascii),
    ("text", "chr"): Entry(lambda use: f"chr(CAST({use.arguments[0]} AS INTEGER))"),
    ("text", "digest"): Entry(_digest, note="md5 and sha256; the algorithm must be a constant"),
    ("text", "encode"): Entry(_encode, note="the encoding must be a constant"),
    ("text", "decode"): Entry(_decode, note="the encoding must be a constant"),
    ("text", "find_in_set"): Entry(_position_in_list),
    ("text", "initcap_words"): Entry(_initcap_words),
    ("text", "like_escaped"): Entry(_like_escaped, _CASE),
    ("text", "md5"): Entry(_call("md5")),
    ("text", "overlay"): Entry(_overlay),
    ("text", "regexp_count"): Entry(_regexp_count, note="flags must be a constant"),
    ("text", "regexp_instr"): Entry(_regexp_instr),
    ("text", "regexp_like"): Entry(_regexp_like, _CASE, "flags must be a constant"),
    ("text", "regexp_match"): Entry(_regexp_match, note="pattern and flags must be constants"),
    ("text", "regexp_replace_flagged"): Entry(_regexp_replace, note="flags must be a constant"),
    ("text", "sha256"): Entry(lambda use: _HASHES["sha256"].format(x=use.arguments[0])),
    ("text", "split_part"): Entry(_split_part),
    ("text", "substr_index"): Entry(_before_separators),
    ("text", "to_hex"): Entry(lambda use: f"lower(to_hex({use.arguments[0]}))"),
    ("text", "translate"): Entry(_call("translate")),
    ("text", "upper_full"): Entry(_upper_full),
}
