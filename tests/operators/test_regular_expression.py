"""Regular expressions that may take long: the answers are DuckDB's own, and all of them end soon when interrupted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import import_module
from math import inf
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.operators.duckdb.statement_functions import InnerStatements
from tidegate.operators.python_functions.pattern_search import Ask, Limits
from tidegate.operators.python_functions.re2_cost import PatternCost, cost_of, rough_steps
from tidegate.operators.python_functions.regular_expression import regular_expression
from tidegate.proto.values import PlanBytes

from ..duckdb_oracle import oracle

NATIVE: Final = {
    "matches": "regexp_matches(x, p)",
    "extract": "regexp_extract(x, p, {group})",
    "all": "regexp_extract_all(x, p, {group})",
    "split": "regexp_split_to_array(x, p)",
    "replace": "regexp_replace(x, p, {new})",
    "replace_all": "regexp_replace(x, p, {new}, 'g')",
}
WHOLE: Final = Limits()
LIMITS: Final = (
    Limits(at_once=0, search=inf, reach=1),
    Limits(at_once=10, search=inf, reach=3),
    Limits(at_once=100, search=inf, reach=256),
    Limits(at_once=300, search=inf, reach=2),
)
"""From one match at a time up to a few characters at once: texts of a few characters take all ways."""

ATOMS: Final = st.sampled_from(
    [
        *(*"abé.^$", "", r"\n", "[ab]", "[^a]", "[^b]", r"\w", r"\s", r"\b", r"\B", r"\A", r"\z", r"\pL"),
        *("a*", "b?", "é+", "x{2}", "(?i)b", "(?i:a)", "(?-i)", r"\Qa.\E", r"\Qb"),
    ]
)
PATTERNS: Final = st.builds(
    "{}{}".format,
    st.sampled_from(["(?-ms)", "(?i-ms)", "(?m-s)", "(?s-m)"]),
    st.recursive(
        ATOMS,
        lambda inner: st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("(?:{}|{})".format, inner, inner),
            st.builds("({})".format, inner),
            st.builds("(?:{}){}".format, inner, st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "*?", "+?", "??"])),
        ),
        max_leaves=6,
    ),
)
TEXTS: Final = st.text("aabb xéB\n", max_size=14)


def nothing() -> None:
    """Nobody has interrupted."""


@pytest.fixture(name="ask", scope="module")
def asking() -> Iterator[Ask]:
    with oracle() as connection, closing(InnerStatements(connection)) as inner:
        yield inner.ask


def answers(
    how: str,
    rows: list[tuple[str | None, str | None]],
    ask: Ask,
    *,
    argument: str = "0",
    limits: Limits = WHOLE,
    check: Callable[[], None] = nothing,
) -> list[Any]:
    columns = ([how] * len(rows), *zip(*rows, strict=True), [argument] * len(rows))
    texts = (pa.chunked_array([pa.array(list(column), pa.string())]) for column in columns)
    lists = regular_expression(*texts, check, ask, limits).to_pylist()
    match how:
        case "matches":
            return [None if texts is None else bool(texts) for texts in lists]
        case "all" | "split":
            return lists
        case _:
            return [None if texts is None else texts[0] for texts in lists]


def native(how: str, rows: list[tuple[str | None, str | None]], group: int = 0, new: str = "") -> list[Any]:
    table = pa.table(
        {"x": [x for x, _ in rows], "p": [p for _, p in rows]}, pa.schema([("x", "string"), ("p", "string")])
    )
    with oracle({"t": table}) as connection:
        call = NATIVE[how].format(group=group, new="'" + new + "'")
        return [value for (value,) in connection.execute(f"SELECT {call} FROM t").fetchall()]


@given(
    text=TEXTS,
    pattern=PATTERNS,
    how=st.sampled_from(sorted(NATIVE)),
    limits=st.sampled_from(LIMITS),
    group=st.integers(0, 2),
    new=st.sampled_from(["-", r"<\0>", r"\1\\", ""]),
)
def test_answers_are_those_of_duckdb(
    ask: Ask, text: str, pattern: str, how: str, limits: Limits, group: int, new: str
) -> None:
    argument = new if how.startswith("replace") else str(group)
    try:
        expected = native(how, [(text, pattern)], group, new)
    except duckdb.Error:
        with pytest.raises((duckdb.Error, ValueError)):
            answers(how, [(text, pattern)], ask, argument=argument, limits=limits)
        return
    assert answers(how, [(text, pattern)], ask, argument=argument, limits=limits) == expected


@pytest.mark.parametrize("how", sorted(NATIVE))
@pytest.mark.parametrize("limits", [*LIMITS, WHOLE])
def test_rows_are_answered_each_with_its_pattern(ask: Ask, how: str, limits: Limits) -> None:
    texts = ["ab, ba", None, "", "aab" * 9, "é, b\na"]
    rows = [(text, pattern) for text in texts for pattern in ("b(a, )?", "(a|b)*", None, "(?s).*?a$")]
    if how != "split":  # without a pattern the whole text is DuckDB's only part
        assert answers(how, rows, ask, limits=limits) == native(how, rows, new="0")
    rows = [(text, r"(\w+, )?b") for text in texts]
    expected = native(how, rows, new="0")
    assert answers(how, rows, ask, limits=limits) == expected


@pytest.mark.parametrize("limits", [LIMITS[0], WHOLE])
def test_errors_are_those_of_duckdb(ask: Ask, limits: Limits) -> None:
    with pytest.raises(duckdb.Error, match="missing"):
        answers("all", [("ab", "(a")], ask, limits=limits)
    with pytest.raises(duckdb.Error, match="Invalid replacement string"):
        answers("replace_all", [("ab", "a")], ask, argument=r"\2", limits=limits)
    with pytest.raises((duckdb.Error, ValueError), match=r"Pattern has 1 groups\. Cannot access group 2"):
        answers("all", [("ab", "(a)")], ask, argument="2", limits=limits)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        pytest.param("aKKz Akz AKz", "(?i:a)[^k]*z", id="a flag that is on in a part"),
        pytest.param("aKKz Akz AKz", "(?i)a(?-i)[^k]*z", id="a flag that is taken back"),
        pytest.param("Aab aA", "(?i)a*", id="a flag that is on everywhere"),
        pytest.param("ab+ aab+ b", r"a*\Qb+", id="quoted characters up to the end"),
        pytest.param("aBaBaK", r"a(?:[ab]|(?i)b|k)", id="a letter of a choice, whose other case RE2 forgets"),
        pytest.param("xaabb axbB", r"(?:a*?|\b)*", id="what matches nothing, again and again"),
        pytest.param("axbB\nKb\nbax", r"(?:(?:[^b]*){0,3}?)*", id="a repetition of repetitions"),
    ],
)
@pytest.mark.parametrize("limits", LIMITS)
def test_signs_that_change_the_reading_of_others_are_read_as_duckdb_does(
    ask: Ask, text: str, pattern: str, limits: Limits
) -> None:
    assert answers("all", [(text, pattern)], ask, limits=limits) == native("all", [(text, pattern)])


STRINGS: Final = r'"([^"\\]|\\.)*"'
RECORD: Final = r'"name": "a \"quoted\" word", "n": 17, '


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        pytest.param([(RECORD * 2_500, STRINGS)], 3, id="strings in 100 KB"),
        pytest.param([(RECORD * 50_000, STRINGS)], 100, id="strings in 2 MB"),
        pytest.param([(f'"{"x" * 50_000}" ' * 20, STRINGS)], 150, id="long strings"),
        pytest.param([(f'"{"x" * 5_000}" {"y" * 5_000}' * 4, STRINGS)] * 40, 2, id="rare strings in many texts"),
        pytest.param([(f'"{"x" * 50_000}" {"y" * 50_000}' * 20, STRINGS)], 3, id="rare strings in 2 MB"),
        pytest.param([("maaa,mb,,c," * 10_000, "m([^,]|,,)*,")], 3, id="doubled separators"),
        pytest.param([(RECORD * 300, STRINGS)] * 100, 20, id="many texts"),
        pytest.param([("wörd " * 30_000, r"(\w+|ö\b)*")], 100, id="places and empty matches"),
    ],
)
@pytest.mark.parametrize("how", ["all", "split", "replace_all"])
def test_a_text_in_which_no_match_goes_far_takes_few_statements(
    ask: Ask, how: str, rows: list[tuple[str, str]], most: int
) -> None:
    asked: list[str] = []

    def counted(sql: str, table: pa.Table) -> pa.Table:
        asked.append(sql)
        return ask(sql, table)

    new = r"<\1>"
    argument = new if how == "replace_all" else "1"
    assert answers(how, [*rows], counted, argument=argument) == native(how, [*rows], 1, new)
    assert len(asked) <= most


@pytest.mark.parametrize(
    ("seconds", "sizes"), [(0.001, [1, 4, 10, 10, 10, 5]), (0.05, [1, 2, 2, 2]), (0.2, [1, 1, 1, 1])]
)
def test_rows_that_take_less_time_than_their_steps_may_are_more(
    seconds: float, sizes: list[int], ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`seconds` are those of a row. The steps of one row are as many as rows that are computed at once may take."""
    text, pattern = "ab" * 500, "(a|b)c"
    at_once = cost_of(pattern).search(len(text))
    now, parts = [0.0], list[int]()

    def counted(sql: str, table: pa.Table) -> pa.Table:
        now[0] += seconds * table.num_rows
        parts.append(table.num_rows)
        return ask(sql, table)

    module = import_module("tidegate.operators.python_functions.regular_expression")
    monkeypatch.setattr(module, "monotonic", lambda: now[0])
    limits = Limits(at_once=at_once, search=inf)
    assert answers("matches", [(text, pattern)] * sum(sizes), counted, limits=limits) == [False] * sum(sizes)
    assert parts == sizes


class StoppedError(Exception):
    """An interruption."""


class Stop:
    """Interrupts at the third look."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> None:
        self.looks += 1
        if self.looks == 3:
            raise StoppedError


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        pytest.param("all", [("c" * 100_000, "c(.*d)?")], id="a text that each match reads to its end"),
        pytest.param("split", [("c" * 100_000, "c(.*d)?")], id="parts of such a text"),
        pytest.param("replace_all", [("ad" * 50_000, "(?:[ad][bd])*d")], id="each second character fits"),
        pytest.param("all", [("c" * 2_000, "c(.*d)?")] * 200, id="many shorter texts"),
        pytest.param("matches", [("ab" * 500_000, "a.{500}c")], id="a counted repetition in a long text"),
        pytest.param("matches", [("ab" * 300_000, "[ab]*a[ab]{500}c")] * 3, id="without a greatest length"),
        pytest.param("extract", [("ab", rf"\pL{{{n}}}") for n in range(1, 60)], id="patterns that are large"),
        pytest.param("matches", [("a" * 30_000, "(?:(?:(?:a?){10}){10}){10}" * 20 + "c")], id="nested repetitions"),
    ],
)
def test_what_takes_long_looks_for_an_interruption(ask: Ask, how: str, rows: list[tuple[str, str]]) -> None:
    stop = Stop()
    with pytest.raises(StoppedError):
        answers(how, [*rows], ask, check=stop)
    assert stop.looks == 3


def test_a_search_that_cannot_be_cut_is_refused_where_it_would_take_long(ask: Ask) -> None:
    with pytest.raises(ValueError, match=r"9,000,000 characters is too long for the pattern .* may take"):
        answers("matches", [("ab" * 4_500_000, ".*a.{500}c")], ask)
    assert answers("matches", [("ab\n" * 3_000_000, ".*a.{500}c")], ask) == [False]
    assert answers("matches", [("ab" * 4_500_000, "a.{100}c")], ask) == [False]


@pytest.mark.parametrize(
    "pattern",
    ["a.*b", r"\d+(\.\d)?\d*", "^[^@]+@[a-z.]+$", "(a|b)*c", "x{500}", "(?s).*?,", r"\s+|\S+", r"(\w+)=(\w+);"],
)
def test_usual_patterns_read_a_text_about_once(pattern: str) -> None:
    cost = cost_of(pattern)
    assert steps_of(cost, 1e6, repeated=True) <= 3 * cost.search(1e6)


def steps_of(cost: PatternCost, size: float, *, repeated: bool) -> float:
    """The steps of a search in a text of so many bytes; a repeated one may read on in vain from each of them."""
    return cost.search(size) + repeated * size * min(size, cost.overrun) * cost.again


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        (STRINGS, '"'),
        (r"a\.b?[c](d)+e{0,3}f{2}", "a.df"),
        ("(?:ab|bc)", "b"),
        ("a|b", ""),
        ("(?i)a", ""),
        ("a(?i:b)c", "a"),
        (r"\x61\n\Qb.\E\"", 'b."'),
        ("(?:(a)*b)?", ""),
    ],
)
def test_the_characters_that_each_match_has_are_known(pattern: str, needed: str) -> None:
    assert cost_of(pattern).needed == set(needed)


@given(text=TEXTS, pattern=PATTERNS)
def test_each_match_has_the_characters_that_it_needs(text: str, pattern: str) -> None:
    try:
        (matches,) = native("all", [(text, pattern)])
    except duckdb.Error:
        return
    assert all(cost_of(pattern).needed <= set(matched) for matched in matches)


@pytest.mark.parametrize(
    "pattern", ["c(.*d)?", "c(?:.*$)?", "(?:[ad][bd])*d", "(?:.*d|c)", r"(?:a\w+-)+", "a(b+c)*", "(?:a|b.*c){1,2}"]
)
def test_a_pattern_that_may_read_a_text_for_each_match_is_known(pattern: str) -> None:
    assert cost_of(pattern).overrun == inf


@given(
    st.one_of(
        PATTERNS,
        st.lists(st.sampled_from([*"a.^$(|)[]{,}?*+1:", "{2,30}", "{0}", "{9}", "(a)" * 99, r"\pL"]), max_size=12).map(
            "".join
        ),
    )
)
def test_rough_steps_are_no_fewer_than_those_of_the_signs(pattern: str) -> None:
    cost = cost_of(pattern)
    assert rough_steps(pattern) >= max(cost.steps, cost.size, cost.again)


@given(PATTERNS, st.floats(1, 1e12), st.booleans())
def test_the_longest_text_takes_no_more_steps(pattern: str, steps: float, repeated: bool) -> None:
    cost = cost_of(pattern)
    longest = cost.longest(steps, cost.overrun if repeated else 0)
    assert steps_of(cost, longest, repeated=repeated) <= steps * 1.000001 or longest == 0
    assert steps_of(cost, longest + 1, repeated=repeated) >= steps * 0.999999


def counting(constant: str | None) -> PlanBytes:
    """A plan that counts a constant pattern, or that of the column `p`, in the texts `s` of `t`."""
    text = {"string": {"nullability": "NULLABILITY_NULLABLE"}}
    base = {"names": ["s", "p"], "struct": {"types": [text, text], "nullability": "NULLABILITY_REQUIRED"}}
    columns: list[dict[str, Any]] = [
        {"selection": {"directReference": {"structField": {"field": at}}, "rootReference": {}}} for at in range(2)
    ]
    pattern = columns[1] if constant is None else {"literal": {"string": constant}}
    call = {"scalarFunction": {"functionReference": 1, "arguments": [{"value": columns[0]}, {"value": pattern}]}}
    read = {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}
    project = {"common": {"emit": {"outputMapping": [2]}}, "input": read, "expressions": [call]}
    name = {"extensionUrnReference": 1, "functionAnchor": 1, "name": "regexp_count_substring:str_str"}
    return PlanBytes(
        json=json.dumps(
            {
                "extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:io.substrait:functions_string"}],
                "extensions": [{"extensionFunction": name}],
                "relations": [{"root": {"names": ["n"], "input": {"project": project}}}],
            }
        )
    )


@pytest.mark.parametrize("constant", [None, "c(.*d)?"])
@pytest.mark.parametrize("channels", [1, 2])
def test_an_epoch_that_would_take_hours_ends_in_time(constant: str | None, channels: int) -> None:
    rows = 50
    hours = pa.table({"s": ["c" * 1_000_000] * rows, "p": ["c(.*d)?"] * rows})
    short = pa.table({"s": ["cad", "c" * 2_000, None], "p": ["c(.*d)?"] * 3})
    options = {"channels": channels, "epoch_seconds": 0.5, "on_error": "skip_epoch"}
    with tidegate.local() as client, client.create_task(counting(constant), **options) as task:
        with pytest.raises(tidegate.TidegateError, match="epoch_seconds"):
            task.run_epoch({"t": hours}).table()
        assert task.run_epoch({"t": short}).table()["n"].to_pylist() == [1, 2_000, None]
