"""Class of bug: the JSON form of a plan read otherwise than the binary one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.decode import decode_plan
from tidegate.planner.decode.encoding import json_text
from tidegate.planner.decode.encoding.json_text import JsonError, parse_json, without_texts
from tidegate.planner.ir.tree import inputs
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from .. import steps
from .plans import I64, TRUE, decode, filter_, number, plan, plan_class, problem, project, table

PLANS = sorted((Path(__file__).parents[2] / "conformance" / "plans").glob("*/q*.bin"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def shape(relation: ir.Relation) -> list[object]:
    return [type(relation).__name__, relation.schema, relation.plan_path, *map(shape, inputs(relation))]


@pytest.mark.parametrize("path", PLANS[::7], ids=lambda path: f"{path.parent.name}/{path.stem}")
@pytest.mark.parametrize("original_names", [True, False])
def test_a_plan_means_the_same_in_json_and_in_protobuf(path: Path, *, original_names: bool) -> None:
    binary = path.read_bytes()
    text = json_format.MessageToJson(plan_class().FromString(binary), preserving_proto_field_name=original_names)
    one, other = decode_plan(PlanBytes(binary=binary)).plan, decode_plan(PlanBytes(json=text)).plan
    assert shape(one.root) == shape(other.root)
    assert one.names == other.names


COMMENT = "// only our own reader reads this\n"
FRONTS = pytest.mark.parametrize("front", ["", COMMENT], ids=["by Python's reader", "by our reader"])


@FRONTS
@given(VALUES)
def test_json_is_read_as_python_reads_it(front: str, value: object) -> None:
    assert parse_json(front + json.dumps(value)) == value
    assert parse_json(front + json.dumps(value, ensure_ascii=False, indent=1)) == value


@FRONTS
@given(text=st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \\u', max_size=12))
def test_text_is_refused_where_python_refuses_it(front: str, text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        with pytest.raises(JsonError):
            parse_json(front + text)
    else:
        assert parse_json(front + text) == expected


@FRONTS
@pytest.mark.parametrize(
    "text", ["NaN", "[-Infinity]", '"\\ud800"', '"\\udc00\\ud800"', "1" * 1_001, "0." + "1" * 1_000, '"\n"', "[1,]"]
)
def test_both_readers_refuse_the_same_text(front: str, text: str) -> None:
    with pytest.raises(JsonError):
        parse_json(front + text)


@FRONTS
def test_both_readers_take_pairs_of_escapes_and_the_last_of_equal_keys(front: str) -> None:
    assert parse_json(front + '{"a": 1, "a": "\\ud83d\\ude00"}') == {"a": "\U0001f600"}


def test_text_that_nests_little_costs_no_step_for_each_value() -> None:
    def work(count: int) -> int:
        text = json.dumps([{"literal": {"i64": str(number)}} for number in range(count)])
        return steps.of(lambda: parse_json(text))

    assert work(1_000) == work(10)


def test_brackets_inside_of_texts_do_not_hide_how_deep_json_is() -> None:
    depth = 20_000
    text = '["' + "]" * depth + '",' + "[" * depth + "]" * depth + "]"
    value = parse_json(text)
    assert isinstance(value, list)
    assert value[0] == "]" * depth


@given(
    tokens=st.lists(st.sampled_from(['"', "\\", "/", "//", "#", "\n", "{", "]", ",", "a", '"x"', '\\"']), max_size=30),
    window=st.integers(1, 9),
)
def test_text_without_its_strings_is_the_same_in_windows_of_any_size(tokens: list[str], window: int) -> None:
    text, kept, string, comment, escaped = "".join(tokens), [], False, False, False
    for at, letter in enumerate(text):
        if comment:
            comment = letter != "\n"
            kept += [] if comment else [letter]
        elif string:
            string = escaped or letter != '"'
            escaped = not escaped and letter == "\\"
        elif letter == '"':
            string = True
        elif letter == "#" or text.startswith("//", at):
            comment = True
        else:
            kept.append(letter)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "_WINDOW", window)
        assert "".join(without_texts(text)) == "".join(kept)


@given(inner=VALUES, depth=st.integers(190, 230), space=st.sampled_from(["", " ", "\n"]), cut=st.integers(0, 9))
def test_what_nests_little_in_deep_json_is_read_as_everywhere_else(
    inner: object, depth: int, space: str, cut: int
) -> None:
    text = f'{{"a": [{json.dumps(inner)}, "q]}}{{"],{space} "b": ' * depth + "0" + "}" * depth
    value = parse_json(text)
    for _ in range(depth):
        assert isinstance(value, dict)
        assert value["a"] == [inner, "q]}{"]
        value = value["b"]
    assert value == 0
    if cut:
        with pytest.raises(JsonError, match="line "):
            parse_json(text[:-cut])


def test_deep_json_takes_no_steps_for_what_nests_little_in_it() -> None:
    wide = json.dumps([["x"] * 100] * 10)
    deep = f'{{"a": {wide}, "b": ' * 300 + "0" + "}" * 300
    assert steps.of(lambda: parse_json(deep)) < 300 * 1_000


def test_json_of_any_depth_is_read() -> None:
    depth = 20_000
    value = parse_json("[" * depth + "]" * depth)
    for _ in range(depth - 1):
        assert isinstance(value, list)
        (value,) = value
    assert value == []


def test_broken_json_says_where() -> None:
    with pytest.raises(PlanError, match=r"line 2, column 3: expected a key in quotes, found '}'"):
        decode_plan(PlanBytes(json='{"relations": [],\n  }'))


@pytest.mark.parametrize("text", ["", "[]", "3", '"plan"', "null"])
def test_what_is_no_object_is_no_plan(text: str) -> None:
    with pytest.raises(PlanError) as raised:
        decode_plan(PlanBytes(json=text))
    assert raised.value.reason == "MALFORMED"


def test_a_field_that_does_not_exist_is_a_problem_where_it_is() -> None:
    reported = problem(plan(filter_(filter_(table(I64), TRUE), TRUE, conditon=TRUE), ["a"]))
    assert (reported.place, reported.reason) == ("relations[0].root.input", "MALFORMED")
    assert "conditon" in reported.message


@pytest.mark.parametrize("junk", [1, "x", [], True, [{}]])
def test_a_relation_that_is_no_object_is_a_problem(junk: object) -> None:
    assert problem(plan(filter_(junk, TRUE), ["a"])).reason == "MALFORMED"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spelling", "type_"),
    [
        ("JOIN_TYPE_SEMI", ir.JoinType.LEFT_SEMI),
        ("JOIN_TYPE_ANTI", ir.JoinType.LEFT_ANTI),
        ("JOIN_TYPE_SINGLE", ir.JoinType.LEFT_SINGLE),
        ("JOIN_TYPE_LEFT_SEMI", ir.JoinType.LEFT_SEMI),
        (5, ir.JoinType.LEFT_SEMI),
    ],
)
def test_join_types_are_read_in_every_spelling(spelling: object, type_: ir.JoinType) -> None:
    join = {"join": {"left": table(I64), "right": table(I64, name="u"), "type": spelling, "expression": TRUE}}
    width = 2 if type_ is ir.JoinType.LEFT_SINGLE else 1
    root = decode(plan(join, ["a", "b"][:width])).plan.root
    assert isinstance(root, ir.Join)
    assert root.type is type_


def test_old_timestamps_that_were_plain_numbers_are_read() -> None:
    new = {"value": 7, "precision": 3}
    literals = [{"literal": {"precisionTimestamp": text}} for text in ("5", new)]
    root = decode(plan(project(table(I64), *literals), ["a", "b", "c"])).plan.root
    assert isinstance(root, ir.Project)
    assert [getattr(expression, "value", None) for expression in root.expressions] == [None, 5, 7]


def test_null_is_as_good_as_absent() -> None:
    fetch = {"fetch": {"input": table(I64), "countExpr": number(3), "offsetExpr": None, "advancedExtension": None}}
    root = decode(plan(fetch, ["a"])).plan.root
    assert isinstance(root, ir.Fetch)
    assert root.offset is None
