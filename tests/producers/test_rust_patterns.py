"""Class of bug: a pattern of DataFusion, which is one of Rust's, that DuckDB reads otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import datafusion
import pyarrow as pa
import pytest

import tidegate
from tidegate.planner.functions.templates.additions.rust_patterns import read

from .datafusion_tables import planned
from .outcomes import RIGHT, answer, held_against

TEXTS: Final = (
    *("abc", "", "a\nb", "äöü ß1٣", "foo bar-baz_qux", "a.b.c", "1,234", "x\u00a0y", "naïve café", "AbC", "aaa"),
    *("a\\b", "$5", "日本 語", "Straße STRASSE", None, "tab\there", "\u2028", "e\u0301x", "“quoted” foo"),
)
PATTERNS: Final = (
    *(r"\w+", r"\W", r"\d+", r"\D+", r"\s", r"\S+", r"[\w-]+", r"[\d.]+", r"[^\s]+", "a.b", "^a", "b$", "(?i)abc"),
    *("(a)|(b)", r"(?P<x>\w)(\w)?", r"\p{L}+", "[[:alpha:]]+", r"\x{e4}", "a*", "é", ".", "(?s).", r"\.", "[^a]"),
    *(r"\u00e4", r"\u{e4}", r"\pL", "(?i)strasse", "[ä-ü]+", "", "((a)|b)+c", "(?:x(a))?b", "[]a](b)", "a{2}(b|c?d)"),
)
NEW: Final = (r"<\1>", "$1", "${1}x", "$$", "[$0]", r"\\", "$x", "$1x", r"\0")
TABLES: Final = {"t": pa.table({"id": pa.array(range(len(TEXTS)), pa.int64()), "s": pa.array(TEXTS, pa.string())})}


@pytest.fixture(scope="module")
def context() -> datafusion.SessionContext:
    opened: Any = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    opened.register_record_batches("t", [TABLES["t"].to_batches()])
    return opened


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local() as opened:
        yield opened


def calls(pattern: str) -> Iterator[str]:
    yield from (f"regexp_like(s, '{pattern}')", f"regexp_like(s, '{pattern}', 'im')", f"s !~* '{pattern}'")
    yield from (f"regexp_{name}(s, '{pattern}')" for name in ("match", "count", "instr"))
    for new in NEW:
        yield from (f"regexp_replace(s, '{pattern}', '{new}')", f"regexp_replace(s, '{pattern}', '{new}', 'g')")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_finds_what_datafusion_finds(
    pattern: str, client: tidegate.Client, context: datafusion.SessionContext
) -> None:
    written = list(calls(pattern))
    sql = f"SELECT id, {', '.join(f'{call} AS c{at}' for at, call in enumerate(written))} FROM t"
    got, wanted = answer(client, planned(sql, context), TABLES), context.sql(sql).to_arrow_table()
    assert isinstance(got, pa.Table), got
    unlike = {
        call: held_against(got.select([0, at]), wanted.select([0, at])).note
        for at, call in enumerate(written, 1)
        if held_against(got.select([0, at]), wanted.select([0, at])) is not RIGHT
    }
    assert unlike == {}


@pytest.mark.parametrize(
    "pattern", ["[a-z&&[^b]]", "[[a]b]", r"(?x)a b", r"\<a", r"[\W]", "[a--b]", r"(?u)a", r"\b{start}", "[a"]
)
def test_what_re2_cannot_mean_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"not supported|has no end"):
        read(pattern)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (r"regexp_like(s, '\bfoo\b')", "edges of words"),
        (r"regexp_like(s, '\' || 'w' || s)", "a pattern from a column"),
        ("regexp_replace(s, 'a', '$' || s)", "a replacement from a column"),
    ],
)
def test_a_text_for_which_the_engines_differ_is_an_error(
    expression: str, says: str, client: tidegate.Client, context: datafusion.SessionContext
) -> None:
    plan = planned(f"SELECT {expression} FROM t WHERE s = 'naïve café'", context)
    with pytest.raises(tidegate.TidegateError, match=says):
        client.query(plan, TABLES)


def test_edges_of_words_in_texts_without_other_letters(
    client: tidegate.Client, context: datafusion.SessionContext
) -> None:
    sql = r"SELECT id, regexp_like(s, '\bfoo\b') FROM t WHERE regexp_like(s, '^[a-z “”]+$')"
    got = answer(client, planned(sql, context), TABLES)
    assert isinstance(got, pa.Table)
    assert held_against(got, context.sql(sql).to_arrow_table()) is RIGHT


@pytest.mark.parametrize(("pattern", "groups"), [("(a*)?", 1), ("(b|)|c", 1), ("(?:(a*)b)?", 1)])
def test_a_group_that_may_be_absent_or_empty_is_known(pattern: str, groups: int) -> None:
    known = read(pattern).groups
    assert len(known) == groups
    assert any(group.may_be_absent and group.may_be_empty for group in known)
