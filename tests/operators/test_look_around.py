"""Regular expressions with look-around: what they find, and that none of them can hold the process."""

from __future__ import annotations

import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.operators.python_functions.look_around import MOST_STEPS, has_look_around, look_around, read
from tidegate.proto.values import PlanBytes


def nothing() -> None:
    """Nobody has interrupted."""


def answered(how: str, text: str | None, pattern: str, argument: str = "0") -> object:
    return look_around([how], [text], [pattern], [argument], nothing)[0].as_py()


ATOMS = st.sampled_from(["a", "b", "[ab]", "[^a]", "."])
PARTS = st.one_of(
    ATOMS,
    st.builds("{}{}".format, ATOMS, st.sampled_from(["+", "*", "?", "{1,3}", "+?"])),
    st.builds("({}|{})".format, ATOMS, ATOMS),
    st.builds("(?:{}{}){{1,2}}".format, ATOMS, ATOMS),
)
LOOKS = st.builds("({}{})".format, st.sampled_from(["?=", "?!"]), PARTS) | st.builds(
    "({}{})".format, st.sampled_from(["?<=", "?<!"]), ATOMS
)
PATTERNS = st.tuples(st.lists(st.one_of(PARTS, LOOKS), min_size=1, max_size=4), LOOKS, ATOMS).map(
    lambda drawn: "".join([*drawn[0], drawn[1], drawn[2]])
)
TEXTS = st.text("abc\n", max_size=12)


@given(text=TEXTS, pattern=PATTERNS)
def test_matches_are_those_at_the_leftmost_places(text: str, pattern: str) -> None:
    """The oracle tries each position in turn."""
    expected, position = [], 0
    while position <= len(text):
        match = re.compile(pattern).match(text, position)
        if match:
            expected.append(match[0])
        position = match.end() if match else position + 1
    assert answered("all:", text, pattern) == expected


@given(text=TEXTS, pattern=PATTERNS)
def test_parts_and_matches_make_the_text(text: str, pattern: str) -> None:
    matches, parts = answered("all:", text, pattern), answered("split:", text, pattern)
    assert isinstance(matches, list)
    assert isinstance(parts, list)
    assert "".join(part + match for part, match in zip(parts, [*matches, ""], strict=True)) == text
    replaced = "".join([parts[0], "<", matches[0], ">", text[len(parts[0] + matches[0]) :]]) if matches else text
    assert answered("replace:", text, pattern, r"<\0>") == [replaced]


@pytest.mark.parametrize(
    ("flags", "pattern", "text", "matches"),
    [
        ("", r"a(?=b|$)", "aba\n", ["a"]),
        ("", r"(?<=\$)a", "a$a", ["a"]),
        ("", r"(?!b)\w", "abé", ["a"]),
        ("", r"a(?=\z)", "aa", ["a"]),
        ("i", "A(?=B)", "ab", ["a"]),
        ("m", "^a(?=b)$|b(?!c)$", "b\nb", ["b", "b"]),
        ("s", "a(?=.)", "a\n", ["a"]),
        ("", "a(?=.)", "a\n", []),
    ],
)
def test_flags_ends_and_classes_are_those_of_other_patterns(
    flags: str, pattern: str, text: str, matches: list[str]
) -> None:
    assert answered(f"all:{flags}", text, pattern) == matches


def test_a_null_gives_null() -> None:
    assert answered("all:", None, "a(?=b)") is None


@pytest.mark.parametrize("pattern", [r"\(?=a", r"[(?=]", "(?:a)", "(?P<x>a)", "(?i)a"])
def test_not_every_bracket_looks_around(pattern: str) -> None:
    assert not has_look_around(pattern)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a+)+(?=b)", "matches in one way"),
        ("(a|aa)*(?!b)c", "matches in one way"),
        ("(?=(a*)*b)a", "matches in one way"),
        ("(a?)*(?=b)c", "matches in one way"),
        ("(?:aa|a){40}(?=b)", "too many"),
        ("(?:a{1,9}){30}(?=b)", "too many"),
        (r"(a)\1(?=b)", "back-references"),
        ("a*(?=b)", "empty text"),
        ("(?=a", "cannot be read"),
        ("(?<=a+)b", "cannot be read"),
        ("[[:alpha:]](?=b)", "class of characters inside"),
        ("a" * 10_000 + "(?=b)", "10,005 characters; at most 10,000"),
    ],
)
def test_a_pattern_that_might_take_long_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read(pattern, "")


@pytest.mark.parametrize(
    ("pattern", "power"), [("a(?=b)", 1), (r"\d+(?= dollars)", 2), ("a*b*c(?!d)", 3), ("(?=.*b)a*c", 3)]
)
def test_the_longest_text_falls_with_the_power_of_the_steps(pattern: str, power: int) -> None:
    most = read(pattern, "").most
    assert most**power <= MOST_STEPS <= (most + 1) ** power * 4 * len(pattern)
    with pytest.raises(ValueError, match="too long for the look-around"):
        answered("all:", "x" * (most + 1), pattern)


@pytest.mark.parametrize(
    ("pattern", "steps"),
    [
        ("(?=a)(?:(?:aa){100}){100}b", 20_000),
        ("a(?<=(?:aa){3000}b)", 6_000),
        ("a(?=(?:(?=a)){3000}b)", 3_000),
        ("(?=(?:(?=(?:(?=(?:(?=a)){100})){100})){100}b)a", 1_000_000),
        ("(?=a)(?:[" + "".join(map(chr, range(0x10000, 0x10400, 2))) + "]){1000}b", 512_000),
    ],
)
def test_what_is_repeated_counts_each_time(pattern: str, steps: int) -> None:
    assert read(pattern, "").most * steps <= MOST_STEPS


def test_the_other_threads_have_as_long_as_a_long_text_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now, slept = iter([1.0, 1.25, 2.0, 2.001]), []
    monkeypatch.setattr("time.perf_counter", lambda: next(now))
    monkeypatch.setattr("time.sleep", slept.append)
    look_around(["all:"] * 2, ["ab"] * 2, ["a(?=b)"] * 2, ["0"] * 2, nothing)
    assert slept == [0.25]


def test_an_interruption_ends_the_work_between_two_texts() -> None:
    calls: list[int] = []

    def check() -> None:
        calls.append(1)
        if len(calls) == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        look_around(["all:"] * 9, ["a"] * 9, ["a(?=b)"] * 9, ["0"] * 9, check)
    assert len(calls) == 3


def counting(pattern: str) -> PlanBytes:
    """A plan that counts the pattern in the texts of `t`."""
    text = {"string": {"nullability": "NULLABILITY_NULLABLE"}}
    base = {"names": ["s"], "struct": {"types": [text], "nullability": "NULLABILITY_REQUIRED"}}
    column = {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}
    arguments = [{"value": column}, {"value": {"literal": {"string": pattern}}}]
    call = {"scalarFunction": {"functionReference": 1, "arguments": arguments}}
    read_ = {"read": {"baseSchema": base, "namedTable": {"names": ["t"]}}}
    project = {"common": {"emit": {"outputMapping": [1]}}, "input": read_, "expressions": [call]}
    document = {
        "extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:io.substrait:functions_string"}],
        "extensions": [
            {
                "extensionFunction": {
                    "extensionUrnReference": 1,
                    "functionAnchor": 1,
                    "name": "regexp_count_substring:str_str",
                }
            }
        ],
        "relations": [{"root": {"names": ["n"], "input": {"project": project}}}],
    }
    return PlanBytes(json=json.dumps(document))


def test_a_pattern_that_is_refused_is_a_problem_of_the_plan() -> None:
    with tidegate.local() as client:
        (problem,) = client.validate(counting("(a+)+(?=b)"))
    assert problem.reason == "UNSUPPORTED_FUNCTION"
    assert problem.place.startswith("relations[0]")
    assert "matches in one way" in problem.message


@pytest.mark.parametrize("channels", [1, 2])
def test_epochs_count_and_a_text_that_is_too_long_fails_its_epoch(channels: int) -> None:
    texts = ["ab", None, "aab ab", "", "b"] * 5_000
    with tidegate.local() as client, client.create_task(counting("a+(?=b)"), channels=channels) as task:
        for _ in range(2):
            assert task.run_epoch({"t": pa.table({"s": texts})}).table()["n"].to_pylist() == [1, None, 2, 0, 0] * 5_000
        with pytest.raises(tidegate.TaskFailed, match=r"relations\[0\].*10,000 characters is too long") as failed:
            task.run_epoch({"t": pa.table({"s": ["a" * 10_000]})}).table()
        assert failed.value.reason == "EXECUTION_FAILED"
