"""Patterns with flags, as DataFusion writes them: in the dialect of Rust's `regex` crate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from .....operators.core import quoting
from .. import regexp_calls
from ..named_values import let, let_all
from ..regexp_calls import Pattern
from ..use import Entry, Table, Use, error, nulls_first
from . import rust_patterns
from .rust_patterns import RustPattern

Body: TypeAlias = Callable[[str, Pattern], str]

_LOCAL: Final = error(
    "a pattern from a column may have classes with a backslash, edges of words and operations on classes only for texts"
    " in ASCII"
)

_REFERENCES: Final = error("a replacement from a column must not have a $")
_EDGES: Final = error(r"edges of words (\b) are known only in texts without letters beyond ASCII")


def _flags(use: Use, index: int, known: str) -> str:
    """The flags of a pattern, a constant, as far as they are known."""
    flags = use.constant(index) if len(use.arguments) > index else ""
    if not isinstance(flags, str):
        use.refuse("the flags must be a constant")
    if odd := set(flags) - set(known):
        use.refuse(f"the flag {min(odd)!r} is not supported; there are: {', '.join(known)}")
    return "".join(dict.fromkeys(flags))


def _written(flags: str) -> str:
    """The flags in front of a pattern, so that no default of the engine decides."""
    off = "".join(flag for flag in "ms" if flag not in flags)
    return f"(?{flags}{f'-{off}' if off else ''})"


def _read(use: Use) -> RustPattern | None:
    """The pattern, if it is a constant."""
    constant = use.constant(1)
    try:
        return rust_patterns.read(constant) if isinstance(constant, str) else None
    except ValueError as problem:
        use.refuse(str(problem))


def _searched(use: Use, flags: str, body: Body, text: str | None = None, around: tuple[str, str] = ("", "")) -> str:
    """`body` of the text and of the pattern in RE2's dialect, with `around` about it; an error where RE2 would read the
    pattern otherwise than Rust does.
    """
    x, pattern, read = text or use.arguments[0], use.arguments[1], _read(use)
    before, behind = f"{_written(flags)}{around[0]}", around[1]
    if read is not None:
        known = f"{before}{read.re2}{behind}"
        constant = Pattern(quoting.text(known), known)
        if not read.has_edges:
            return body(x, constant)
        return let(x, lambda v: f"CASE WHEN {_has_wide_letters(v)} THEN {_EDGES} ELSE {body(v, constant)} END")

    def checked(names: Sequence[str]) -> str:
        v, p = names  # `before` and `behind` have no local signs
        local = f"regexp_matches({p}, {quoting.text(rust_patterns.LOCAL.pattern)})"
        return f"CASE WHEN {_is_wide(v)} AND {local} THEN {_LOCAL} ELSE {body(v, Pattern(p))} END"

    return let_all((x, f"({quoting.text(before)} || {pattern} || {quoting.text(behind)})"), checked)


def _is_wide(x: str) -> str:
    return f"strlen({x}) <> length({x})"


def _has_wide_letters(x: str) -> str:
    beyond = f"regexp_replace({x}, '[\\x00-\\x7F]+', '', 'g')"
    return f"{_is_wide(x)} AND regexp_matches({beyond}, {quoting.text(rust_patterns.WORD)})"


def _like(use: Use) -> str:
    flags = _flags(use, 2, "ims") or ("i" if use.choices["case_sensitivity"] == "CASE_INSENSITIVE" else "")
    return _searched(use, flags, regexp_calls.matches)


def _replace(use: Use) -> str:
    flags = _flags(use, 3, "gims")
    new, read, text = use.arguments[2], _read(use), use.constant(2)
    if isinstance(text, str) and read is not None:
        try:
            new = quoting.text(read.replacement(text))
        except ValueError as problem:
            use.refuse(str(problem))
    else:
        new = let(new, lambda n: f"CASE WHEN contains({n}, '$') THEN {_REFERENCES} ELSE {n} END")
    every = "g" in flags
    return _searched(use, flags.replace("g", ""), lambda x, pattern: regexp_calls.replace(x, pattern, new, every=every))


def _count(use: Use) -> str:
    x, _, *rest = use.arguments
    if rest and use.constant(2) != 1:
        return let_all((x, rest[0]), lambda v: _count_from(use, *v))
    return _count_in(use, x)


def _count_from(use: Use, x: str, start: str) -> str:
    """The matches from a position. An empty match behind the text's last character counts, none behind that does."""
    before = error("regexp_count from a position below 1")
    behind = f"CASE WHEN {x} IS NOT NULL AND {use.arguments[1]} IS NOT NULL THEN 0 END"
    count = _count_in(use, f"substring({x}, {start})")
    return f"CASE WHEN {start} < 1 THEN {before} WHEN {start} - 1 > length({x}) THEN {behind} ELSE {count} END"


def _count_in(use: Use, x: str) -> str:
    read = _read(use)
    if read is not None and read.may_be_empty and read.has_places:
        use.refuse("a pattern with ^, $ or edges of words must not match an empty text")
    may_be_empty = read is None or read.may_be_empty

    def counted(text: str, pattern: Pattern) -> str:
        matches = regexp_calls.extract_all(text, pattern)
        return let(matches, _not_adjacent) if may_be_empty else f"len({matches})"

    return _searched(use, _flags(use, 3, "ims"), counted, x)


def _not_adjacent(matches: str) -> str:
    """The number of matches, without those that are empty and stand behind one that is not: Rust has none."""
    adjacent = f"lambda match, nth: match = '' AND nth > 1 AND {matches}[nth - 1] <> ''"
    return f"(len({matches}) - len(list_filter({matches}, {adjacent})))"


def _instr(use: Use) -> str:
    """The length of the shortest text before a match, plus one."""

    def position(x: str, pattern: Pattern) -> str:
        first = f"length({regexp_calls.extract(x, pattern, 1)}) + 1"
        return f"CASE {regexp_calls.matches(x, pattern)} WHEN true THEN {first} WHEN false THEN 0 END"

    return _searched(
        use, "", lambda x, pattern: let(x, lambda v: position(v, pattern)), around=(r"\A((?s:.*?))(?:", ")")
    )


def _match(use: Use) -> str:
    """The groups of the first match that take part in it; the match itself if the pattern has none."""
    read = _read(use)
    if read is None:
        use.refuse("the pattern must be a constant")
    if any(group.may_be_absent and group.may_be_empty for group in read.groups):
        use.refuse("DuckDB does not tell a group that takes no part in a match from one that is empty")
    numbers = range(1, len(read.groups) + 1) if read.groups else range(1)

    def matched(x: str, pattern: Pattern) -> str:
        parts = [regexp_calls.extract(x, pattern, number) for number in numbers]
        for number, group in enumerate(read.groups):
            if group.may_be_absent:
                parts[number] = f"nullif({parts[number]}, '')"
        texts = f"[{', '.join(parts)}]"
        if any(group.may_be_absent for group in read.groups):
            texts = f"list_filter({texts}, lambda part: part IS NOT NULL)"
        return f"CASE WHEN {regexp_calls.matches(x, pattern)} THEN {texts} END"

    return _searched(use, _flags(use, 2, "ims"), lambda x, pattern: let(x, lambda v: matched(v, pattern)))


_CASE: Final = {"case_sensitivity": ("CASE_SENSITIVE", "CASE_INSENSITIVE")}

TABLE: Final[Table] = {
    ("text", "regexp_count"): Entry(nulls_first(_count), note="flags must be a constant"),
    ("text", "regexp_instr"): Entry(_instr),
    ("text", "regexp_like"): Entry(_like, _CASE, "flags must be a constant"),
    ("text", "regexp_match"): Entry(_match, note="pattern and flags must be constants"),
    ("text", "regexp_replace_flagged"): Entry(_replace, note="flags must be a constant"),
}
