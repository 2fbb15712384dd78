"""A plan that is not of the encoding it is given as: one line that says what was perhaps meant."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidegate.planner.decode import decode_plan
from tidegate.planner.decode.encoding.json_text import JsonError, parse_json
from tidegate.planner.decode.encoding.looks_like import looks_like
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from ...executor.plans import plan as plan_of
from ...executor.plans import read

PLAN = plan_of(read("t", "k"), "k").json or ""


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        (PlanBytes(binary=b' {"relations": []}'), "looks like JSON: give a plan in JSON as a str, or as a file"),
        (
            PlanBytes(json="plan.bin"),
            "'plan.bin', and a plan in JSON begins with '{': give the name of a file as",
        ),
        (PlanBytes(binary=b""), "it is empty: a plan is protobuf bytes"),
        (PlanBytes(json=""), "the text is empty, and a plan in JSON begins with"),
        (PlanBytes(json='{"relatons": []}'), 'has no field named "relatons"'),
    ],
)
def test_a_plan_of_another_encoding_is_told_in_one_line(plan: PlanBytes, sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        decode_plan(plan)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.reason == "MALFORMED"


def test_a_byte_order_mark_before_json_is_no_part_of_it() -> None:
    marked = "\ufeff" + PLAN
    one, other = decode_plan(PlanBytes(json=marked)).plan, decode_plan(PlanBytes(json=PLAN)).plan
    assert (one.names, one.root.schema) == (other.names, other.root.schema)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (PLAN.encode("utf-16"), "this looks like text in UTF-16: a plan in JSON is text in UTF-8"),
        (PLAN.encode("utf-8-sig"), "this looks like JSON: give a plan in JSON as a str"),
        ("SELECT 1".encode("utf-8-sig"), "this looks like SQL"),
    ],
)
def test_text_behind_a_byte_order_mark_is_told_too(data: bytes, sentence: str) -> None:
    with pytest.raises(PlanError, match=sentence):
        decode_plan(PlanBytes(binary=data))


SQL = ["SELECT a FROM t", "-- the day's\n  select 1", "/* two */ with x as (select 1) select * from x", "(SELECT 1)"]
PROTOBUF_TEXT = ["relations {\n  root {}\n}", "# a plan\nextension_urns: [{}]", "version { minor_number: 53 }"]
TEXT_PLANS = [
    "pipelines {\n  read -> root;\n}",
    "/* textplan */\nread relation r {}",
    "=== Plan\nRoot[a]\n  Read[t => a:i64]",
    "// of a producer\nschema s {\n  a i64;\n}",
]


@pytest.mark.parametrize("encoded", ["json", "binary"])
@pytest.mark.parametrize(
    ("texts", "like", "wanted"),
    [
        (SQL, "this looks like SQL", "and a producer (DuckDB, DataFusion, Isthmus or ibis) makes a plan from SQL"),
        (PROTOBUF_TEXT, "this looks like protobuf's text format", "protobuf bytes (a file of any name) or JSON"),
        (TEXT_PLANS, "this looks like a plan written as text", "protobuf bytes (a file of any name) or JSON"),
    ],
)
def test_text_that_is_no_plan_is_told_what_it_looks_like_and_what_is_wanted(
    texts: list[str], like: str, wanted: str, encoded: str
) -> None:
    for text in texts:
        plan = PlanBytes(json=text) if encoded == "json" else PlanBytes(binary=text.encode())
        with pytest.raises(PlanError) as refused:
            decode_plan(plan)
        assert like in str(refused.value)
        assert wanted in str(refused.value)
        assert str(refused.value).count("Substrait plan") == 1


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"RelRoot(names=[k])\n  project\n", "the text begins with 'RelRoot(names=[k])\\n '"),
        (b"/plans/sales.bin\n", "the text begins with '/plans/sales.bin'"),
        (b"\x89PNG\r\n\x1a\n123", "not protobuf: wire type 3 at byte 10"),
        (b"\x1a\x7f", "not protobuf: the field at byte 0 is longer than its message"),
    ],
)
def test_bytes_that_are_no_plan_are_told_what_is_wanted(data: bytes, sentence: str) -> None:
    with pytest.raises(PlanError) as refused:
        decode_plan(PlanBytes(binary=data))
    assert str(refused.value) == (
        f"this is not a Substrait plan: {sentence}: a plan is protobuf bytes (a file of any name) or JSON "
        "(text, or a file whose name ends in .json)"
    )


@given(
    st.lists(
        st.sampled_from([" ", "\n", "(", "/*", "*/", "--", "//", "#", "x", "schema ", "with", "root"]), min_size=1
    ),
    st.integers(1, 2000),
    st.booleans(),
)
@example(["(", " "], 2000, True)
@example(["/*", " ", "*/"], 900, True)
@example(["/*"], 2000, True)
@example(["--"], 2000, False)
def test_what_stands_before_the_first_word_is_read_once(parts: list[str], times: int, joined: bool) -> None:
    """Backtracking over it would take longer than any test may."""
    text = "".join(parts) * times if joined else "".join(part * times for part in parts)
    started = time.process_time()
    for plan in (PlanBytes(json=f"{text}!"), PlanBytes(binary=f"{text}!".encode())):
        looks_like(plan)
    assert time.process_time() - started < 5


def test_no_plan_of_a_producer_looks_like_something_else() -> None:
    for path in Path(__file__).parents[2].joinpath("conformance", "plans").rglob("*.bin"):
        assert looks_like(PlanBytes(binary=path.read_bytes())) is None


COMMENTED = """// Substrait's examples have comments, which say where they come from.
# SELECT a FROM t
{
  // the only relation
  "relations": [], # none
  "expectedTypeUrls": ["https://example.org/#not-a-comment"]
}
// the end"""


def test_comments_to_the_end_of_a_line_are_no_part_of_a_plan_in_json() -> None:
    assert looks_like(PlanBytes(json=COMMENTED)) is None
    assert parse_json(COMMENTED) == {
        "relations": [],
        "expectedTypeUrls": ["https://example.org/#not-a-comment"],
    }


def test_a_comment_takes_the_rest_of_its_line_alone() -> None:
    with pytest.raises(JsonError, match="line 2, column 1: expected"):
        parse_json('{"a": // 1}\n}')
