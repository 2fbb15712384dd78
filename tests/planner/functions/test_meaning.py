"""The meaning of functions, against naive Python: overflow, rounding, division, nulls."""

import datetime as dt
import decimal
import itertools
import math

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.planner import ir
from tidegate.planner.functions import bind, bind_scalar
from tidegate.planner.ir import types as t
from tidegate.planner.sql.expression_writer import render, render_measure

from ...bare_statements import runnable

CONNECTION = duckdb.connect(config={"threads": 1})
I64 = t.Integer(bits=64, nullable=False)
BYTE = st.integers(-128, 127)
MODES = {
    "TIE_TO_EVEN": decimal.ROUND_HALF_EVEN,
    "TIE_AWAY_FROM_ZERO": decimal.ROUND_HALF_UP,
    "TIE_TOWARDS_ZERO": decimal.ROUND_HALF_DOWN,
    "TRUNCATE": decimal.ROUND_DOWN,
    "CEILING": decimal.ROUND_CEILING,
    "FLOOR": decimal.ROUND_FLOOR,
    "AWAY_FROM_ZERO": decimal.ROUND_UP,
}


class NoColumns:
    guards = None

    def column(self, index, outer):
        raise AssertionError

    def subquery(self, relation):
        raise AssertionError

    def context(self, variable):
        raise AssertionError


class OneColumn(NoColumns):
    def column(self, index, outer):
        return f"r.c{index}"


def answer(name, *arguments, **options):
    bound = bind_scalar(name, None, arguments, options={key: [value] for key, value in options.items()})
    with runnable(f"SELECT {render(bound, NoColumns())}", CONNECTION) as statement:
        return CONNECTION.sql(statement).fetchall()[0][0]


def integer(value, bits=8):
    return ir.Literal(value=value, type=t.Integer(bits=bits, nullable=False))


def number(digits, precision, scale):
    value = decimal.Decimal(digits).scaleb(-scale)
    return ir.Literal(value=value, type=t.Decimal(precision=precision, scale=scale, nullable=False))


def boolean(value):
    return ir.Literal(value=value, type=t.Boolean())


@given(BYTE, BYTE, st.sampled_from(["add", "subtract", "multiply"]))
def test_integers_overflow_as_asked(x, y, name):
    exact = {"add": x + y, "subtract": x - y, "multiply": x * y}[name]
    assert answer(name, integer(x), integer(y), overflow="SATURATE") == max(-128, min(127, exact))
    assert answer(name, integer(x), integer(y), overflow="SILENT") == (exact + 128) % 256 - 128
    if -128 <= exact <= 127:
        assert answer(name, integer(x), integer(y)) == exact
    else:
        with pytest.raises(duckdb.OutOfRangeException):
            answer(name, integer(x), integer(y), overflow="ERROR")


@given(BYTE, BYTE.filter(bool))
def test_the_sign_of_a_remainder_follows_the_kind_of_division(x, y):
    assert answer("modulus", integer(x), integer(y), division_type="FLOOR") == x % y
    assert answer("modulus", integer(x), integer(y), division_type="TRUNCATE") == x - y * int(x / y)


@pytest.mark.parametrize("kind", ["FLOOR", "TRUNCATE"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_the_remainder_of_the_least_integer_by_minus_one_is_zero(bits, kind):
    assert answer("modulus", integer(-(2 ** (bits - 1)), bits), integer(-1, bits), division_type=kind) == 0


@given(st.integers(-(10**9), 10**9), st.integers(-3, 4), st.sampled_from(sorted(MODES)))
def test_decimals_and_integers_round_in_every_direction(digits, decimal_places, mode):
    step = decimal.Decimal(1).scaleb(-decimal_places)
    wanted = (decimal.Decimal(digits).scaleb(-3) / step).to_integral_value(MODES[mode]) * step
    exact = wanted if decimal_places < 3 else decimal.Decimal(digits).scaleb(-3)
    assert answer("round", number(digits, 10, 3), integer(decimal_places, 32), rounding=mode) == exact
    if decimal_places <= 0:
        whole = (decimal.Decimal(digits) / step).to_integral_value(MODES[mode]) * step
        assert answer("round", integer(digits, 64), integer(decimal_places, 32), rounding=mode) == whole


@given(st.integers(-(10**15), 10**15), st.integers(-(10**9), 10**9).filter(bool))
def test_decimal_division_is_exact_to_its_last_digit(x, y):
    bound_division = bind_scalar("divide", None, [number(x, 16, 2), number(y, 10, 4)])
    (quotient,) = CONNECTION.sql(f"SELECT {render(bound_division, NoColumns())}").fetchall()[0]
    with decimal.localcontext(decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)):
        wanted = (decimal.Decimal(x).scaleb(-2) / decimal.Decimal(y).scaleb(-4)).quantize(
            decimal.Decimal(1).scaleb(-bound_division.type.scale)
        )
    assert quotient == wanted


@given(st.integers(-(10**17), 10**17), st.integers(1, 10**3), st.integers(0, 18))
def test_decimals_of_up_to_18_digits_are_divided_and_rounded_whatever_their_places(x, y, scale):
    divided = answer("divide", number(x, 18, scale), number(y, 5, 0))
    with decimal.localcontext(decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)):
        exact = decimal.Decimal(x).scaleb(-scale)
        assert abs(divided - exact / y) <= decimal.Decimal(1).scaleb(-6)
        assert answer("round", number(x, 18, scale), integer(0, 32)) == exact.quantize(decimal.Decimal(1))


@given(st.integers(-(10**18) + 1, 10**18 - 1), st.integers(-(10**18) + 1, 10**18 - 1), st.integers(4, 9))
def test_decimals_with_many_places_are_multiplied_whatever_their_values(x, y, scale):
    with decimal.localcontext(decimal.Context(prec=80)):
        wanted = decimal.Decimal(x * y).scaleb(-2 * scale)
    assert answer("multiply", number(x, 18, scale), number(y, 18, scale)) == wanted


@given(st.integers(-(10**15), 10**15), st.integers(0, 4))
def test_integers_are_raised_to_a_power_exactly_or_fail(x, y):
    exact = x**y
    if -(2**63) <= exact < 2**63:
        assert answer("power", integer(x, 64), integer(y, 64)) == exact
    else:
        with pytest.raises(duckdb.Error):
            answer("power", integer(x, 64), integer(y, 64))


@pytest.mark.parametrize(
    ("name", "known"),
    [("power", integer(0, 64)), ("shift_left", integer(-1, 32)), ("shift_right", integer(-1, 32))],
)
def test_a_null_is_the_answer_whatever_the_other_operand_is(name, known):
    """A power of 0 is 1, and a shift by a negative number an error."""
    unknown = ir.Literal(value=None, type=t.Integer(bits=64))
    assert answer(name, unknown, known) is None


def test_a_null_power_of_zero_is_null():
    assert answer("power", integer(0, 64), ir.Literal(value=None, type=t.Integer(bits=64))) is None


def _and(values):
    return False if False in values else None if None in values else True


def _or(values):
    return True if True in values else None if None in values else False


@pytest.mark.parametrize("values", list(itertools.product([True, False, None], repeat=3)))
def test_logic_is_three_valued(values):
    assert answer("and", *map(boolean, values)) == _and(values)
    assert answer("or", *map(boolean, values)) == _or(values)


@pytest.mark.parametrize(
    ("name", "wanted"), [("least", None), ("least_skip_null", 1), ("greatest", None), ("greatest_skip_null", 3)]
)
def test_the_least_and_greatest_skip_nulls_only_when_they_say_so(name, wanted):
    null = ir.Literal(value=None, type=t.Integer(bits=32))
    assert answer(name, integer(3, 32), null, integer(1, 32)) == wanted


@pytest.mark.parametrize(("low", "high"), [(None, 3), (6, None), (None, None)])
def test_between_is_null_when_a_bound_is(low, high):
    bounds = [ir.Literal(value=value, type=t.Integer(bits=32)) for value in (low, high)]
    assert answer("between", integer(5, 32), *bounds) is None


def test_a_pattern_matches_a_backslash_as_itself():
    text = [ir.Literal(value=value, type=t.String(nullable=False)) for value in ("100%", "100\\%")]
    assert answer("like", *text) is False


def text(value):
    return ir.Literal(value=value, type=t.String(nullable=False))


@pytest.mark.parametrize("below", [0, -1, -(2**63)])
@pytest.mark.parametrize(
    ("name", "before", "behind"),
    [
        ("regexp_replace", ["X"], [1]),
        ("regexp_match_substring", [], [1, 0]),
        ("regexp_match_substring_all", [], [0]),
        ("regexp_count_substring", [], []),
    ],
)
def test_a_search_from_a_position_below_one_is_an_error(name, before, behind, below):
    def searched_from(position):
        numbers = [integer(value, 64) for value in (position, *behind)]
        return answer(name, text("abcabc"), text("b"), *map(text, before), *numbers)

    assert searched_from(3) in ("abcaXc", "b", ["b"], 1)
    with pytest.raises(duckdb.Error, match=f"{name} from a position below 1"):
        searched_from(below)


def test_a_match_is_counted_from_one():
    parts = [text("abcabc"), text("[abc]"), integer(2, 64)]
    assert answer("regexp_match_substring", *parts, integer(2, 64), integer(0, 64)) == "c"
    with pytest.raises(duckdb.Error, match="an occurrence below 1"):
        answer("regexp_match_substring", *parts, integer(-1, 64), integer(0, 64))


def test_fixed_length_text_compares_without_its_padding():
    padded = ir.Literal(value="BUILDING  ", type=t.FixedChar(length=10, nullable=False))
    assert answer("equal", padded, ir.Literal(value="BUILDING", type=t.FixedChar(length=10, nullable=False))) is True


def test_nested_uses_of_a_function_that_reads_its_argument_twice_stay_small():
    expression = ir.Field(index=0, type=t.Integer(bits=32))
    for _ in range(30):
        expression = bind_scalar("least", None, [expression, ir.Literal(value=1, type=t.Integer(bits=32))])

    class OneColumn(NoColumns):
        def column(self, index, outer):
            return "r.c0"

    assert len(render(expression, OneColumn())) < 20_000


@given(st.lists(st.none() | BYTE, max_size=8))
def test_an_average_of_distinct_integers_is_the_truncated_average_of_their_set(numbers):
    bound = bind(
        ir.FunctionKind.AGGREGATE, "avg:i64", "functions_arithmetic", [ir.Field(index=0, type=t.nullable(I64))]
    )
    average = ir.Measure(function=bound.function, arguments=bound.arguments, type=bound.type, distinct=True)
    sql = render_measure(average, OneColumn())
    rows = f"(SELECT unnest({[*numbers, None]}::BIGINT[]) AS c0)".replace("None", "NULL")
    kept = {number for number in numbers if number is not None}
    expected = int(decimal.Decimal(sum(kept)) / len(kept)) if kept else None
    assert CONNECTION.sql(f"SELECT {sql} FROM {rows} r").fetchall() == [(expected,)]


@given(st.dates(), st.dates())
def test_dates_differ_by_days(one, other):
    days = [ir.Literal(value=date.toordinal() - 719163, type=t.Date(nullable=False)) for date in (one, other)]
    assert answer("subtract", *days) == (one - other).days


@given(st.integers(-(2**52), 2**52), st.integers(-(2**52), 2**52))
def test_timestamps_differ_by_an_interval(one, other):
    moments = [ir.Literal(value=v, type=t.Timestamp(precision=6, nullable=False)) for v in (one, other)]
    assert answer("subtract", *moments) == dt.timedelta(microseconds=one - other)


def test_a_difference_with_nanoseconds_is_an_error():
    fine = [ir.Literal(value=v, type=t.Timestamp(precision=9, nullable=False)) for v in (3_000, 1_000, 1_001)]
    assert answer("subtract", *fine[:2]) == dt.timedelta(microseconds=2)
    with pytest.raises(duckdb.Error, match="has nanoseconds"):
        answer("subtract", *fine[1:])


@pytest.mark.parametrize(("name", "value"), [("degrees", 3e38), ("exp", 200.0), ("sinh", -200.0), ("cosh", 200.0)])
def test_a_function_of_short_floats_is_infinite_where_32_bits_are_too_few(name, value):
    argument = ir.Literal(value=value, type=t.Float(bits=32, nullable=False))
    sql = render(bind_scalar(name, None, [argument]), NoColumns())
    assert CONNECTION.execute(f"SELECT {sql}").fetchall() == [(math.copysign(math.inf, value),)]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_shifts_of_unsigned_integers_wrap_their_number_of_places(value, shift):
    wide = t.Integer(bits=64, signed=False, nullable=False)
    urn = "extension:io.tidegate:functions_numbers"
    arguments = [ir.Literal(value=number, type=wide) for number in (value, shift)]
    calls = (bind_scalar(f"shift_{side}_wrapped", urn, arguments) for side in ("left", "right"))
    sql = ", ".join(render(call, NoColumns()) for call in calls)
    by = shift % 64
    assert CONNECTION.execute(f"SELECT {sql}").fetchall() == [((value << by) % 2**64, value >> by)]
