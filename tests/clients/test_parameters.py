"""Class of bug: a task with another value for a parameter than was given to it, in this or in a later process."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import datafusion
import pyarrow as pa
import pytest
from datafusion.substrait import Serde

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.planner.decode import decode_plan
from tidegate.planner.decode.encoding import limits
from tidegate.proto.encoding.plan_parameters import numbered
from tidegate.proto.values import PlanBytes

from ..planner.decode.plans import I64, Node, emit, encode, field, plan, project, table

ROWS: Final = pa.table({"a": pa.array([1, 2, 3, 4], pa.int64()), "s": ["x", "y", "x", None]})
ONE: Final = {"t": pa.table({"a": pa.array([0], pa.int64())})}
UTC: Final = dt.UTC


def context() -> datafusion.SessionContext:
    opened: Any = datafusion.SessionContext(datafusion.SessionConfig().with_target_partitions(1))
    opened.register_record_batches("t", [ROWS.to_batches()])
    return opened


def planned(sql: str) -> bytes:
    return bytes(Serde.serialize_bytes(sql, context()))


ABOVE: Final = planned("SELECT a FROM t WHERE a > $1")


def required(kind: str, **more: Any) -> Node:
    return {kind: {"nullability": "NULLABILITY_REQUIRED", **more}}


def parameter(number: int, type_: Node) -> Node:
    return {"dynamicParameter": {"parameterReference": number, "type": type_}}


def projection(*types: Node) -> bytes:
    """A plan that gives, behind a column of a table, a parameter of each type."""
    values = [parameter(number, type_) for number, type_ in enumerate(types)]
    names = ["c0", *(f"p{number}" for number in range(len(types)))]
    for number, type_ in enumerate(types):  # a struct's fields have names of their own, behind their column's
        fields = len(type_.get("struct", {}).get("types", ()))
        at = names.index(f"p{number}") + 1
        names[at:at] = [f"f{number}_{field}" for field in range(fields)]
    return encode(plan(project(table(I64), *values), names))


@pytest.fixture
def client(open_client: Callable[..., Client], tmp_path: Path) -> Client:
    return open_client(PlanEngine([], tmp_path))


MOMENT: Final = dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)  # noqa: DTZ001 (a timestamp without a zone)
PAIR: Final = required("struct", types=[required("i32"), required("string")])
WORDS: Final = required("map", key=required("string"), value={"i64": {"nullability": "NULLABILITY_NULLABLE"}})
IDENTITY: Final = uuid.UUID(int=7)

VALUES: Final[tuple[tuple[Node, object, object], ...]] = (
    (required("bool"), True, True),
    (required("i8"), -128, -128),
    (required("i16"), pa.scalar(7, pa.uint8()), 7),
    (required("i32"), 2.0, 2),
    (required("i64"), -(2**63), -(2**63)),
    (required("fp32"), 0.5, 0.5),
    (required("fp64"), Decimal("0.05"), 0.05),
    (required("fp64"), -math.inf, -math.inf),
    (required("decimal", precision=38, scale=1), 10**36, Decimal(10**36)),
    (required("decimal", precision=4, scale=2), Decimal("-1.5"), Decimal("-1.50")),
    (required("string"), "it's ☃", "it's ☃"),
    (required("string"), pa.scalar("big", pa.large_string()), "big"),
    (required("varchar", length=3), "äöü", "äöü"),
    (required("fixedChar", length=2), "ab", "ab"),
    (required("binary"), b"\x00'\xff", b"\x00'\xff"),
    (required("fixedBinary", length=2), b"\x00\x01", b"\x00\x01"),
    (required("date"), dt.date(1, 1, 1), dt.date(1, 1, 1)),
    (required("precisionTime", precision=6), dt.time(23, 59, 59, 999_999), dt.time(23, 59, 59, 999_999)),
    (required("precisionTimestamp", precision=3), MOMENT, MOMENT),
    (
        required("precisionTimestamp", precision=1),
        MOMENT.replace(microsecond=900_000),
        MOMENT.replace(microsecond=900_000),
    ),
    (
        required("precisionTimestampTz", precision=6),
        dt.datetime(2024, 7, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime(2024, 7, 1, tzinfo=UTC),
    ),
    (required("intervalYear"), pa.MonthDayNano([14, 0, 0]), pa.MonthDayNano([14, 0, 0])),
    (
        required("intervalDay", precision=6),
        dt.timedelta(days=-1, microseconds=5),
        pa.MonthDayNano([0, -1, 5_000]),
    ),
    (required("uuid"), IDENTITY, IDENTITY),
    (required("list", type=required("i64")), [3, 1], [3, 1]),
    (PAIR, {"any": 1, "name": "x"}, {"f22_0": 1, "f22_1": "x"}),
    (WORDS, pa.scalar([("k", None), ("l", 2)], pa.map_(pa.string(), pa.int64())), [("k", None), ("l", 2)]),
    ({"i64": {"nullability": "NULLABILITY_NULLABLE"}}, None, None),
)
"""For each type a value that is given, and the one that comes out."""


def test_every_type_has_values(client: Client) -> None:
    types, sent, expected = zip(*VALUES, strict=True)
    answer = client.query(projection(*types), ONE, parameters=dict(enumerate(sent)))
    got = [column[0].as_py() for column in answer.columns[1:]]
    for value, there in zip(expected, got, strict=True):
        assert value == there or list(value.values()) == list(there.values())


QUERIES: Final[tuple[tuple[str, list[object]], ...]] = (
    ("SELECT a FROM t WHERE s = $2 AND a > $1", [1, "x"]),
    ("SELECT a + $1 AS more, coalesce(s, $2) AS s FROM t", [10, "none"]),
    ("SELECT a FROM t ORDER BY a DESC LIMIT $1", [2]),
    ("SELECT s, count(*) AS n FROM t GROUP BY s HAVING count(*) >= $1 ORDER BY s", [1]),
    ("SELECT a FROM t WHERE a IN ($1, $2) OR s IS NOT DISTINCT FROM $3", [1, 2, None]),
)


def test_parameters_of_sql_mean_what_datafusion_means() -> None:
    with tidegate.local() as client:
        for sql, values in QUERIES:
            written = sql
            for number, value in enumerate(values, 1):
                written = written.replace(f"${number}", "NULL" if value is None else repr(value))
            expected = context().sql(written).to_arrow_table().to_pylist()
            assert client.query(planned(sql), {"t": ROWS}, parameters=dict(enumerate(values))).to_pylist() == expected


def computed(at: int) -> Node:
    """A parameter out of a subquery: DuckDB knows its value only when the statement runs."""
    one = table(I64)
    del one["read"]["namedTable"]
    one["read"]["virtualTable"] = {"expressions": [{"fields": [{"literal": {"i64": 1}}]}]}
    value = {"dynamicParameter": {"parameterReference": at}}
    return {"subquery": {"scalar": {"input": project(one, value, common=emit(1))}}}


@pytest.mark.parametrize("rows", [2**62, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("written", [lambda at: {"dynamicParameter": {"parameterReference": at}}, computed])
def test_a_limit_beyond_all_rows_is_none(client: Client, rows: int, written: Callable[[int], Node]) -> None:
    keys = {"input": table(I64), "sorts": [{"expr": field(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]}
    values = {0: pa.scalar(rows, pa.uint64()), 1: 1}
    for skipped, left in ((1, [2, 3, 4]), (0, [])):
        numbers = {"count": written(0), "offset": written(skipped)}
        parameters = values if skipped else {0: values[0]}
        for relation in (
            {"fetch": {"input": {"sort": keys}, **{f"{name}Expr": number for name, number in numbers.items()}}},
            {"topN": {**keys, **numbers, "mode": "FETCH_MODE_ROWS_ONLY"}},
            {"topN": {**keys, **numbers, "mode": "FETCH_MODE_WITH_TIES"}},
        ):
            answer = client.query(encode(plan(relation, ["a"])), {"t": ROWS}, parameters=parameters)
            assert answer["a"].to_pylist() == left


def test_negative_numbers_of_ties_are_refused(client: Client) -> None:
    keys = {"input": table(I64), "sorts": [{"expr": field(0), "direction": "SORT_DIRECTION_ASC_NULLS_LAST"}]}
    top = {"topN": {**keys, "count": computed(0), "mode": "FETCH_MODE_WITH_TIES"}}
    with pytest.raises(tidegate.TaskFailed, match="LIMIT/OFFSET cannot be negative"):
        client.query(encode(plan(top, ["a"])), {"t": ROWS}, parameters={0: -1})


def test_keys_that_no_map_can_have_are_refused_at_their_place(client: Client) -> None:
    def literal(**kind: object) -> Node:
        return {"literal": kind}

    null = literal(null={"string": {"nullability": "NULLABILITY_NULLABLE"}})
    month = {"intervalYearToMonth": {"months": 1}, "intervalDayToSecond": {"precision": 6}}
    days = {"intervalYearToMonth": {}, "intervalDayToSecond": {"days": 30, "precision": 6}}
    for keys, sentence in (
        ([literal(string="k"), literal(string="k")], "a map must not have a key twice"),
        ([literal(fp64=0.0), literal(fp64=-0.0)], "a map must not have a key twice"),
        ([literal(fp64="NaN"), literal(fp64="NaN")], "a map must not have a key twice"),
        ([literal(intervalCompound=month), literal(intervalCompound=days)], "a map must not have a key twice"),
        ([literal(string="k"), null], "a key of a map must not be null"),
    ):
        pairs = [{"key": key["literal"], "value": {"i64": 1}} for key in keys]
        nested = [{"key": key, "value": literal(i64=1)} for key in keys]
        written = literal(map={"keyValues": pairs}), {"nested": {"map": {"keyValues": nested}}}
        for expression, kind in zip(written, ("literal", "nested"), strict=True):
            (problem,) = client.validate(encode(plan(project(table(I64), expression), ["a", "m"])))
            assert (problem.reason, problem.message) == ("BAD_LITERAL", sentence)
            assert problem.place.endswith(f"expressions[0].{kind}.map.key_values[1].key")


REFUSED: Final[tuple[tuple[Node, object, str], ...]] = (
    (required("i64"), "5", "parameter 0 is declared i64, but its value is string"),
    (required("i8"), 128, "128 is not a value of type int8"),
    (required("i64"), 2.5, "is declared i64, but 2.5 is not"),
    (required("i64"), True, "but its value is bool"),
    (required("i64"), None, "parameter 0 is declared i64, but its value is null"),
    (required("decimal", precision=4, scale=2), Decimal("1.505"), "1.505 is not a value"),
    (required("decimal", precision=4, scale=2), 0.5, "but its value is double"),
    (required("date"), "2024-01-01", "is declared date, but its value is string"),
    (required("date"), MOMENT, "but its value is timestamp"),
    (required("precisionTimestamp", precision=1), MOMENT, "more places than its type"),
    (required("precisionTimestamp", precision=6), MOMENT.replace(tzinfo=UTC), "but its value is timestamp"),
    (required("varchar", length=2), "äöü", "a text of 3 characters is not a varchar<2>"),
    (required("fixedChar", length=4), "äöü", "a text of 3 characters is not a fixedchar<4>"),
    (required("intervalYear"), dt.timedelta(days=1), "is not a value of type interval_year"),
    (required("precisionTimestamp", precision=0), pa.scalar(2**60, pa.timestamp("s")), "beyond the range of"),
    (required("precisionTimestampTz", precision=6), pa.scalar(-(2**63), pa.timestamp("us", "UTC")), "beyond the range"),
    (required("precisionTimestamp", precision=9), pa.scalar(2**63 - 1, pa.timestamp("ns")), "beyond the range of"),
    (required("precisionTimestampTz", precision=6), pa.scalar(1, pa.timestamp("ns", "+99:99")), "000000001 is not"),
    (WORDS, pa.scalar([("k", 1), ("k", 2)], pa.map_(pa.string(), pa.int64())), "a map must not have a key twice"),
    (required("list", type=required("i64")), [1, None], "there is a null in its value, i64"),
    (required("list", type=required("i64")), 1, "but its value is int64"),
    (PAIR, {"only": 1}, "but its value is struct<only: int64>"),
)


def test_a_value_that_is_none_of_the_type_is_refused_with_its_place(client: Client) -> None:
    for type_, value, sentence in REFUSED:
        problem, *_ = client.validate(projection(type_), parameters={0: value})  # the names follow from its type
        assert problem.reason == "BAD_PARAMETER"
        assert sentence in problem.message
        assert problem.place.endswith("expressions[0].dynamic_parameter.type")


@pytest.mark.parametrize(
    ("parameters", "reason", "sentence"),
    [
        (None, "MISSING_PARAMETER", "parameter 0 has no value"),
        ({}, "MISSING_PARAMETER", "parameter 0 has no value"),
        ({0: 1, 3: 5, 9: 1}, "UNKNOWN_PARAMETER", "the plan has no parameter 3; its parameters are: 0"),
    ],
)
def test_every_parameter_has_one_value(
    client: Client, parameters: Mapping[int, object] | None, reason: str, sentence: str
) -> None:
    with pytest.raises(tidegate.PlanError, match=sentence) as refused:
        client.create_task(ABOVE, parameters=parameters)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"$1": 5}, "its number, from 0"),
        ({True: 5}, "its number"),
        ({0: object()}, "cannot be <object"),
        ({-1: 5}, "-1"),
    ],
)
def test_what_is_no_parameter_is_refused_before_it_is_sent(parameters: Any, sentence: str) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=sentence) as refused:
        tidegate.with_parameters(ABOVE, parameters)
    assert refused.value.reason == "BAD_PARAMETER"


def test_a_value_that_is_given_takes_the_place_of_the_plans(client: Client) -> None:
    whole = projection(I64)
    bound = tidegate.with_parameters(whole, {0: 5})
    both = encode(
        plan(
            project(table(I64), parameter(0, I64)),
            ["c0", "p"],
            parameterBindings=[{"parameterAnchor": 0, "value": {"i64": 1}}],
        )
    )
    for of, parameters, expected in ((bound, None, 5), (bound, {0: 6}, 6), (both, None, 1), (both, {0: 7}, 7)):
        assert client.query(of, ONE, parameters=parameters).column(1).to_pylist() == [expected]
    assert client.explain(bound) == client.explain(whole, parameters={0: 6})
    assert client.warnings(whole, parameters={0: 6}) == ()


def test_a_graph_has_no_parameters() -> None:
    with tidegate.local() as client, pytest.raises(tidegate.InvalidRequest, match="a graph has no tables"):
        client.create_task(tidegate.TaskGraph(), parameters={0: 1})


def stream(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.table(columns)
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (b"\x00", "cannot be read: this is not an Arrow IPC schema message"),
        (stream(**{"0": pa.array([1, 2])}), "must be one row, not 2"),
        (stream(**{"0": pa.array([], pa.int64())}), "must be one row, not 0"),
        (stream(zero=pa.array([1])), "called by its parameter's number, as 0, not 'zero'"),
        (stream(**{"4294967296": pa.array([1])}), "called by its parameter's number"),
        (stream(**{"0": pa.array([1]), "00": pa.array([2])}), "parameter 0 has two values"),
    ],
)
def test_malformed_values_are_a_problem_of_the_plan(client: Client, sent: bytes, sentence: str) -> None:
    (problem,) = client.validate(PlanBytes(binary=ABOVE, parameters=sent))
    assert (problem.place, problem.reason) == ("parameters", "BAD_PARAMETER")
    assert sentence in problem.message


def test_the_size_of_values_is_bounded() -> None:
    """All of them together, how often the plan repeats one, also as several types, and the values inside of them."""
    text = tidegate.with_parameters(b"", {0: "x" * (limits.BYTES.most - 100)}).parameters
    lists = projection(required("list", type=required("i64")))
    many = tidegate.with_parameters(lists, {0: list(range(limits.LITERALS.most))})
    uses = [parameter(0, required("string"))] * 40
    often = plan(project(table(I64), *uses), [f"c{number}" for number in range(41)])
    half = "x" * (limits.REPEATED_BYTES.most // 38)
    kinds = [parameter(0, required("varchar", length=limits.REPEATED_BYTES.most + kind)) for kind in range(40)]
    as_kinds = plan(project(table(I64), *kinds), [f"c{number}" for number in range(41)])
    bools = required("list", type=required("bool"))
    literal = {"literal": {"i64": 5}}
    flags = [True] * (limits.LITERALS.most // 2)
    one_list = plan(project(table(I64), *[parameter(0, bools)] * 100), [f"c{number}" for number in range(101)])
    with_own = plan(project(table(I64), parameter(0, bools), *[literal] * 1_000), [f"c{at}" for at in range(1_002)])
    nulls = pa.FixedSizeListArray.from_arrays(pa.nulls(2**31 - 1), 2**31 - 1)
    columns = {str(number): pa.array([1]) for number in range(limits.COLUMNS.most + 1)}
    for sent, sentence in (
        (PlanBytes(binary=b"\x00" * 200, parameters=text), r"bytes; at most 16,777,216"),
        (many, r"100,001 literals"),
        (tidegate.with_parameters(projection(bools, bools), {0: flags, 1: flags}), r"100,002 literals"),
        (tidegate.with_parameters(encode(with_own), {0: [True] * 99_500}), r"more than 100,000 literals"),
        (PlanBytes(binary=lists, parameters=stream(**{"0": nulls})), r"2,147,483,648 literals"),
        (PlanBytes(binary=lists, parameters=stream(**columns)), r"10,001 columns"),
        (tidegate.with_parameters(encode(as_kinds), {0: half}), r"bytes of parts that are written once"),
        (tidegate.with_parameters(encode(one_list), {0: flags}), r"bytes of parts that are written once"),
        (tidegate.with_parameters(encode(often), {0: half}), r"bytes of parts that are written once"),
    ):
        with pytest.raises(tidegate.PlanError, match=sentence) as refused:
            decode_plan(sent)
        assert refused.value.reason == "PLAN_TOO_LARGE"


def test_a_value_without_a_declared_type_has_one_that_columns_have(client: Client) -> None:
    untyped = encode(plan(project(table(I64), {"dynamicParameter": {"parameterReference": 0}}), ["c0", "p"]))
    wide = pa.array([{f"field {at}": at for at in range(500)}])
    negative = pa.scalar(Decimal(5_000), pa.decimal128(5, -3))
    for value, there in ((negative, r"decimal128(5, -3)"), (wide[0], "struct<field 0")):
        (problem,) = client.validate(untyped, parameters={0: value})
        assert (problem.reason, problem.place) == (
            "BAD_PARAMETER",
            "relations[0].root.input.project.expressions[0].dynamic_parameter.type",
        )
        assert f"{there}" in problem.message
        assert len(problem.message) < 400


def test_a_durable_task_keeps_its_values(tmp_path: Path) -> None:
    with tidegate.local(data=tmp_path / "data") as client:
        task = client.create_task(ABOVE, parameters={0: 2})
        task.add_split("t", ROWS)
        task.no_more_splits()
    with tidegate.local(data=tmp_path / "data") as client:
        assert client.task(task.id).read_epoch().to_pylist() == [{"a": 3}, {"a": 4}]


def test_a_checkpoint_fits_the_same_values_alone(tmp_path: Path) -> None:
    with tidegate.local(checkpoint_root=tmp_path) as client:
        taken = client.create_task(ABOVE, parameters={0: 2}).run_epoch({"t": ROWS}, checkpoint=True).checkpoint
        again = client.create_task(ABOVE, parameters={0: pa.scalar(2, pa.int16())}, restore=taken)
        assert again.run_epoch({"t": ROWS}).table().num_rows == 2
        with pytest.raises(tidegate.CheckpointError, match="other values of its parameters") as refused:
            client.create_task(ABOVE, parameters={0: 3}, restore=taken)
    assert refused.value.reason == "CHECKPOINT_OTHER_PARAMETERS"


def test_a_request_with_other_values_is_another_request(tmp_path: Path) -> None:
    """The wire's `request` makes one task however often it comes, and no other with its name."""
    with tidegate.local() as client:
        service: Any = client.service
        first, second = (tidegate.with_parameters(ABOVE, {0: value}) for value in (1, 2))
        options = client.create_task(first).options
        first_task = service.create_task(first, options, {}, request="r" * 20)
        assert service.create_task(first, options, {}, request="r" * 20).id == first_task.id
        with pytest.raises(tidegate.TidegateError, match="request"):
            service.create_task(second, options, {}, request="r" * 20)


def test_texts_are_json_moments_or_themselves() -> None:
    values = {
        "5": 5,
        "0.05": Decimal("0.05"),
        "null": None,
        "true": True,
        '"5"': "5",
        "[1, 2]": [1, 2],
        "2024-02-29": dt.date(2024, 2, 29),
        "2024-02-29 12:00:00": dt.datetime(2024, 2, 29, 12),  # noqa: DTZ001 (a timestamp without a zone)
        "12:30:00": dt.time(12, 30),
        "two words": "two words",
        "": "",
        "[" * 20_000: "[" * 20_000,
    }
    assert {text: numbered("3", text) for text in values} == {text: (3, value) for text, value in values.items()}
    with pytest.raises(tidegate.InvalidRequest, match="as 0, not '\\$1'"):
        numbered("$1", "5")
