"""Binding: spellings, overloads, conversions and result types, against what the official files say."""

import pytest

from tidegate.planner import ir
from tidegate.planner.functions import bind, bind_scalar, overloads, registry
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import check
from tidegate.proto.errors import PlanError

SCALAR, AGGREGATE = ir.FunctionKind.SCALAR, ir.FunctionKind.AGGREGATE
I32, I64 = t.Integer(bits=32, nullable=False), t.Integer(bits=64, nullable=False)
PRICE = t.Decimal(precision=15, scale=2, nullable=False)


@pytest.mark.parametrize(
    "declared",
    [
        "extension:io.substrait:functions_arithmetic",
        "https://github.com/substrait-io/substrait/blob/main/extensions/functions_arithmetic.yaml",
        "/functions_arithmetic.yaml",
        "https://github.com/substrait-io/substrait/blob/main/extensions/",
        "",
        None,
    ],
)
@pytest.mark.parametrize("name", ["add", "ADD", "add:i64_i64", "add:i64?_i64?", "+"])
def test_a_function_is_found_under_every_spelling_of_its_name_and_of_its_file(declared, name):
    bound = bind(SCALAR, name, declared, [I64, I64])
    assert (bound.function.urn, bound.function.signature) == (
        "extension:io.substrait:functions_arithmetic",
        "add:i64_i64",
    )


@pytest.mark.parametrize(
    ("arguments", "urn"),
    [
        ([I64, I64], "functions_arithmetic"),
        ([PRICE, PRICE], "functions_arithmetic_decimal"),
    ],
)
def test_a_name_that_several_files_define_is_told_apart_by_its_arguments(arguments, urn):
    assert bind(SCALAR, "add", None, arguments).function.urn == f"extension:io.substrait:{urn}"


def test_an_integer_beside_a_decimal_becomes_one_as_wide_as_its_literal():
    one = ir.Literal(value=1, type=I64)
    bound = bind(SCALAR, "subtract", None, [one, ir.Field(index=0, type=PRICE)])
    assert bound.arguments[0].type == t.Decimal(precision=1, scale=0, nullable=False)


def test_a_string_literal_becomes_the_type_it_is_compared_with():
    date = ir.Field(index=0, type=t.Date())
    bound = bind(SCALAR, "lt", None, [date, ir.Literal(value="1994-01-01", type=t.String())])
    assert [argument.type for argument in bound.arguments] == [t.Date(), t.Date()]


def test_a_declared_result_type_is_kept_and_picks_the_implementation():
    bound = bind(AGGREGATE, "avg:decimal", None, [PRICE], output=t.Float(bits=64))
    assert (bound.function.signature, bound.type) == ("avg:fp64", t.Float(bits=64))


def test_what_the_official_files_lack_is_bound_to_our_own():
    text = t.String(nullable=True)
    bound = bind(AGGREGATE, "min", "extension:io.substrait:functions_arithmetic", [text])
    assert (bound.function.urn, bound.type) == ("extension:io.tidegate:functions_ordered_values", text)
    assert bind(AGGREGATE, "min", None, [I64]).function.urn == "extension:io.substrait:functions_arithmetic"


def test_a_result_is_nullable_where_an_argument_is():
    assert bind(SCALAR, "add", None, [I64, t.nullable(I64)]).type == t.nullable(I64)
    assert bind(SCALAR, "add", None, [I64, I64]).type == I64


def test_an_unknown_name_is_a_problem_with_its_place_and_the_nearest_names():
    with pytest.raises(PlanError) as caught:
        bind_scalar("substrng", None, [ir.Literal(value="x", type=t.String())], plan_path="relations[0]")
    (problem,) = caught.value.problems
    assert problem.place == "relations[0]"
    assert "substrng(string?)" in problem.message
    assert "substring" in problem.message


def test_arguments_that_fit_nothing_are_a_problem_that_lists_the_candidates():
    with pytest.raises(
        PlanError, match=r"no scalar function like\(i64, i64\); there are: like:vchar_vchar, like:str_str"
    ):
        bind(SCALAR, "like", None, [I64, I64])


def test_an_option_value_that_cannot_be_honoured_is_refused_by_name():
    with pytest.raises(PlanError, match="option rounding = CEILING is not supported"):
        bind(SCALAR, "add", None, [t.Float(bits=64)] * 2, options={"rounding": ["CEILING"]})


VALUES = (0, -1, 7, 10, 99, 12_345, -(2**31), 2**40)
"""Literals of one to thirteen digits."""


def bound_to(name, kind, others, value):
    """The binding of a call, as text; its refusal where there is none."""
    try:
        return repr(bind(kind, name, None, [*others, ir.Literal(value=value, type=I64)]))
    except PlanError as error:
        return str(error)


@pytest.mark.parametrize("others", [(), (I64,), (PRICE,), (t.String(),), (t.Date(),)], ids=str)
def test_a_binding_does_not_depend_on_the_literals_of_earlier_calls(others, monkeypatch):
    for kind in (SCALAR, AGGREGATE):
        for name in sorted(registry.names(kind)):
            remembered = [bound_to(name, kind, others, value) for value in VALUES]
            for value, known in zip(VALUES, remembered, strict=True):
                monkeypatch.setattr(overloads, "_KNOWN", {})
                assert bound_to(name, kind, others, value) == known


def test_calls_with_other_literals_are_not_chosen_for_again(monkeypatch):
    tried = []
    candidates = overloads._candidates
    monkeypatch.setattr(overloads, "_KNOWN", {})
    monkeypatch.setattr(overloads, "_candidates", lambda *asked: tried.append(asked) or candidates(*asked))
    for value in range(1_000):
        bind(SCALAR, "add", None, [I64, ir.Literal(value=value, type=I64)])
        bind(SCALAR, "equal", None, [t.String(), ir.Literal(value=f"text {value}", type=t.String())])
    assert len(tried) == 4  # a choice for integers of each number of digits, and one for texts


def test_a_function_whose_result_type_is_not_supported_is_refused():
    with pytest.raises(PlanError, match="type geometry, which is not supported") as caught:
        bind_scalar("point", None, [ir.Field(index=0, type=I64)] * 2)
    assert caught.value.problems[0].reason == "UNSUPPORTED_FUNCTION"


def text(value):
    return ir.Literal(value=value, type=t.String(nullable=False))


@pytest.mark.parametrize("name", ["strptime_timestamp", "strptime_time"])
def test_a_column_in_place_of_a_precision_is_refused_by_name(name):
    arguments = [ir.Field(index=0, type=t.String()), text("%Y"), ir.Field(index=1, type=t.Integer(bits=8))]
    with pytest.raises(PlanError, match="precision must be a literal") as caught:
        bind_scalar(name, None, arguments)
    assert caught.value.problems[0].reason == "UNSUPPORTED_ARGUMENT"


PRECISION = ir.Literal(value=6, type=t.Integer(bits=8, nullable=False))


@pytest.mark.parametrize(
    ("name", "type_", "more"),
    [
        ("strptime_date", t.String(), []),
        ("strptime_time", t.String(), [PRECISION]),
        ("strptime_timestamp", t.String(), [PRECISION]),
        ("strptime_timestamp", t.String(), [text("UTC"), PRECISION]),
        ("strftime", t.Date(), []),
        ("to_char", t.Date(), []),
        ("to_date", t.String(), []),
    ],
)
def test_a_format_from_a_column_is_refused(name, type_, more):
    use = bind_scalar(name, None, [ir.Field(index=0, type=type_), ir.Field(index=1, type=t.String()), *more])
    with pytest.raises(PlanError, match="the format must be a constant"):
        check(use)


@pytest.mark.parametrize(
    ("name", "type_"),
    [("strptime_date", t.String()), ("strftime", t.Date()), ("to_char", t.Date()), ("to_date", t.String())],
)
def test_a_format_of_more_than_1_000_characters_is_refused(name, type_):
    moment = ir.Field(index=0, type=type_)
    check(bind_scalar(name, None, [moment, text("%Y" * 500)]))
    with pytest.raises(PlanError, match="the format has 1,001 characters; at most 1,000 are allowed"):
        check(bind_scalar(name, None, [moment, text("%Y" * 500 + "-")]))


@pytest.mark.parametrize(
    ("width", "why"),
    [
        ((0, 0, 0), "above 0"),
        ((-1, 0, 0), "above 0"),
        ((0, -1, 0), "above 0"),
        ((0, 0, -900_000), "above 0"),
        ((0, 1, -86_400_001), "above 0"),
        ((1, -3, 0), "either months, or days and a time"),
    ],
)
def test_bins_of_a_width_that_is_not_above_0_or_has_months_and_days_are_refused(width, why):
    moment = ir.Field(index=0, type=t.Timestamp(precision=6))
    compound = t.IntervalCompound(precision=3)
    check(bind_scalar("date_bin", None, [ir.Literal(value=(0, 1, -86_399_999), type=compound), moment]))
    with pytest.raises(PlanError, match=f"date_bin: the width must (be|have) {why}"):
        check(bind_scalar("date_bin", None, [ir.Literal(value=width, type=compound), moment]))


@pytest.mark.parametrize("name", ["regexp_match_substring", "replace_slice"])
def test_a_function_that_may_have_no_result_is_nullable_whatever_its_file_says(name):
    numbers = [ir.Literal(value=1, type=t.required(I64))] * 2
    arguments = [text("a"), text("b")] if name.startswith("regexp") else [text("a"), *numbers, text("b")]
    assert bind_scalar(name, None, arguments).type.nullable


def test_a_producers_meaning_holds_for_names_without_an_extension():
    columns = [ir.Field(index=0, type=I64)] * 2
    official = "extension:io.substrait:functions_comparison"
    assert bind_scalar("least", None, columns, dialect="datafusion").function.name == "least_skip_null"
    assert bind_scalar("least", official, columns, dialect="datafusion").function.name == "least"
    assert bind_scalar("least", None, columns).function.name == "least"


@pytest.mark.parametrize("zone", ["Nowhere/City", "", "Europe/Berlin'"])
def test_a_constant_that_names_no_time_zone_is_refused(zone):
    arguments = [ir.Field(index=0, type=t.TimestampTz(nullable=False)), ir.Literal(value=zone, type=t.String())]
    with pytest.raises(PlanError) as caught:
        check(bind_scalar("local_timestamp", None, arguments, plan_path="here"))
    (problem,) = caught.value.problems
    assert (problem.reason, problem.place) == ("UNKNOWN_TIME_ZONE", "here")
    assert repr(zone) in problem.message


@pytest.mark.parametrize("zone", ["Europe/Berlin", "utc", "GMT+5", "America/New_York"])
def test_a_time_zone_that_duckdb_knows_is_taken(zone):
    arguments = [ir.Field(index=0, type=t.TimestampTz(nullable=False)), ir.Literal(value=zone, type=t.String())]
    check(bind_scalar("local_timestamp", None, arguments))
