"""Mistakes of users: one sentence says what would be right, in this process and over gRPC."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.proto.arrow.levels import check_levels
from tidegate.proto.errors import LONGEST_PLACE, Problem

from .conftest import PLAN, Start

TABLE = pa.table({"x": pa.array([1], pa.int64())})


@pytest.mark.parametrize("address", ["", "localhost", ":1", "http://localhost:1", "localhost:99999", "localhost:x", 5])
def test_what_is_no_address_is_refused_before_it_is_dialled(address: Any) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="must be HOST:PORT, with a port up to 65535, or unix:PATH"):
        tidegate.connect(address)


def test_splits_without_their_sources_name_are_refused(start: Start) -> None:
    task = start()
    for use in (task.run_epoch, lambda splits: task.transact("app", 1, splits, seal=True)):
        with pytest.raises(tidegate.InvalidRequest, match=r"given by source name, .* not as 'sales.parquet'"):
            use("sales.parquet")


def test_tables_without_their_names_are_refused(client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="given by source name"):
        client.create_task(PLAN, tables=[TABLE])  # type: ignore[arg-type]
    with pytest.raises(tidegate.InvalidRequest, match="a source's name must be text, not 5"):
        client.create_task(PLAN, tables={5: TABLE})  # type: ignore[dict-item]


def nested(levels: int, around: Callable[[pa.DataType], pa.DataType]) -> pa.Table:
    type_: pa.DataType = pa.int64()
    for _ in range(levels):
        type_ = around(type_)
    return pa.table({"x": pa.array([None], type_)})


def test_tables_and_values_of_more_levels_than_can_be_sent_are_refused(start: Start, client: Client) -> None:
    around = {2: lambda inner: pa.map_(pa.int64(), inner), 1: pa.list_, 0: lambda inner: pa.struct({"s": inner})}
    for kind, wrap in around.items():
        table = nested(32 if kind == 2 else 64, wrap)
        for use in (
            lambda rows: start().add_split("a", rows),
            lambda rows: client.create_task(PLAN, tables={"a": rows}),
            lambda rows: client.validate(PLAN, parameters={0: rows["x"][0]}),
        ):
            with pytest.raises(tidegate.InvalidRequest, match="nests deeper than 63 levels") as refused:
                use(table)
            assert refused.value.reason == "TOO_DEEP"
        with pytest.raises(tidegate.InvalidRequest, match="Recursion level"):
            start().add_split("a", table.to_reader())
    check_levels(nested(63, pa.list_).schema)


@pytest.mark.parametrize(
    "ranges",
    [
        *[{"row_groups": groups} for groups in (1, ("0",), (), (-1,), (2**32,))],
        *[{"rows": rows} for rows in (3, (1, 2, 3), (-1, 2), (0, 2**63))],
    ],
)
def test_rows_of_a_file_that_are_none_are_refused(start: Start, ranges: dict[str, Any]) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"rows?(_groups)?=.* of sales.parquet must be"):
        start().add_split("a", tidegate.FileSplit("sales.parquet", **ranges))


@pytest.mark.parametrize("path", ["a\udcff.parquet", Path("a\udcff.parquet"), 5])
def test_what_is_no_path_is_refused(start: Start, path: Any) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="cannot be a path: a path must be"):
        start().add_split("a", tidegate.FileSplit(path))


@pytest.mark.parametrize(
    "said",
    [{"format": 5}, {"change_column": 5}, {"watermark": "now"}, {"watermark": 2**63}, {"missing_columns": "maybe"}],
)
def test_words_about_a_file_that_are_none_are_refused_alike_where_it_is_added_and_listed(
    start: Start, said: dict[str, Any]
) -> None:
    task, file = start(), tidegate.FileSplit("sales.parquet", **said)
    for use in (task.add_split, task.find_files):
        with pytest.raises(tidegate.InvalidRequest, match=r"must be (text|a whole number|one of error, null)"):
            use("a", file)


@pytest.mark.parametrize("watermark", [1.5, "now", 2**63, -(2**63) - 1])
def test_watermarks_that_are_no_microseconds_are_refused(start: Start, watermark: Any) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"watermark=.* must be a whole number of microseconds"):
        start().add_split("a", TABLE, watermark=watermark)


def test_the_watermark_of_a_source_that_has_ended_is_refused(start: Start) -> None:
    """It would leave the BARRIER without a watermark: nothing final, where everything was meant."""
    task = start()
    with pytest.raises(tidegate.InvalidRequest, match=r"has watermark 9223372036854775807.*no_more_splits"):
        task.add_split("a", TABLE, watermark=2**63 - 1)
    task.add_split("a", TABLE, watermark=2**63 - 2)
    task.request_barrier()
    assert next(task.epochs()).watermark == 2**63 - 3  # the last one, since the next stands for an idle source


@pytest.mark.parametrize("broadcast", [None, "a", 1, (1,)])
def test_sources_to_broadcast_that_are_no_list_are_refused(client: Client, broadcast: Any) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="broadcast must be a list of source names"):
        client.create_task(PLAN, broadcast=broadcast)


def test_a_tasks_id_that_is_no_text_is_refused(client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="id must be text"):
        client.task(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("numbers", [{"version": "1"}, {"version": -1}, {"version": 2, "follows": "1"}])
def test_versions_that_are_no_whole_numbers_are_refused(start: Start, numbers: dict[str, Any]) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="must be a whole number from 0 on") as refused:
        start().transact("app", splits={"a": TABLE}, seal=True, **numbers)
    assert refused.value.reason == "BAD_TRANSACTION"


@pytest.mark.parametrize("number", [-1, 1.5, float("nan"), float("inf"), "1", True, None])
def test_places_and_sizes_that_are_no_whole_numbers_are_refused(start: Start, number: Any) -> None:
    task = start()
    for cursor in (tidegate.Cursor(number, 0), tidegate.Cursor(1, number)):
        for use in (task.next, task.acknowledge, lambda cursor: tidegate.Task(task.service, task.info(), cursor)):
            with pytest.raises(tidegate.InvalidRequest, match=r"cursor is row .* these are whole numbers"):
                use(cursor)
    with pytest.raises(tidegate.InvalidRequest, match=r"watermark=.* must be a whole number of microseconds"):
        task.request_barrier(watermarks={"a": "1" if number in (-1, True) else number})
    if number is not None:
        for use in (lambda most: task.next(max_bytes=most), lambda ahead: task.batches(prefetch=ahead)):
            with pytest.raises(tidegate.InvalidRequest, match=r"=.* must be a whole number from 0 on"):
                use(number)


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("-inf"), "1", 1j])
def test_times_that_are_no_seconds_are_refused(start: Start, seconds: Any) -> None:
    task = start()
    for use in (lambda: task.next(wait=seconds), lambda: task.epochs(timeout=seconds)):
        with pytest.raises(tidegate.InvalidRequest, match=r"=.* must be a number of seconds from 0 on"):
            use()


NAMED = {
    "split": lambda task, name: task.add_split(name, TABLE),
    "splits": lambda task, name: task.run_epoch({name: TABLE}),
    "transaction": lambda task, name: task.transact("app", 1, {name: TABLE}, seal=True),
    "end": lambda task, name: task.no_more_splits(name),
    "idle": lambda task, name: task.request_barrier(idle=[name]),
    "watermark": lambda task, name: task.request_barrier(watermarks={name: 5}),
    "last split": lambda task, name: task.request_barrier(through={name: 1}),
}


@pytest.mark.parametrize("use", NAMED.values(), ids=NAMED)
@pytest.mark.parametrize("name", [5, b"a", 1.5, ("a",)])
def test_names_that_are_no_text_are_refused(
    start: Start, use: Callable[[tidegate.Task, Any], object], name: Any
) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="a source's name must be text, not"):
        use(start(), name)


@pytest.mark.parametrize("value", [5, b"a", ("a",), ["a"]])
def test_what_is_given_by_name_or_number_is_refused_without_them(client: Client, start: Start, value: Any) -> None:
    task = start()
    for use in (
        lambda: task.request_barrier(watermarks=value),
        lambda: task.request_barrier(through=value),
        lambda: task.no_more_splits(through=value),
        lambda: client.create_task(PLAN, parameters=value),
    ):
        with pytest.raises(tidegate.InvalidRequest, match=r"must be a dict of"):
            use()
    for called in (
        lambda: task.add_split("a", TABLE, change_column=value),
        lambda: task.transact(value, 1, {"a": TABLE}, seal=True),
        lambda: task.last_transaction(value),
    ):
        with pytest.raises(tidegate.InvalidRequest, match="must be text, not"):
            called()


def test_a_place_thousands_of_levels_deep_is_told_by_its_ends() -> None:
    problem = Problem(place="relations[0]" + ".fetch.input" * 10_000 + ".read", reason="TOO_DEEP", message="too deep")
    sentence = str(tidegate.PlanError(problem))
    assert sentence.startswith("relations[0].fetch.input.fetch")
    assert sentence.endswith(".fetch.input.read: too deep")
    assert len(sentence) < LONGEST_PLACE + 20


@pytest.mark.parametrize(
    ("plan", "like"),
    [("SELECT x FROM a", "looks like SQL"), (b"relations {\n  root {}\n}", "looks like protobuf's text format")],
)
def test_text_for_a_plan_is_told_what_it_looks_like_by_every_call_that_takes_one(
    plan: str | bytes, like: str, open_client: Callable[..., Client], tmp_path: Path
) -> None:
    client = open_client(PlanEngine([], tmp_path))
    (problem,) = client.validate(plan)
    assert (problem.reason, like in problem.message) == ("MALFORMED", True)
    for take in (client.create_task, client.explain, client.query):
        with pytest.raises(tidegate.PlanError, match=f"not a Substrait plan: this {like}"):
            take(plan)


def test_a_plan_in_json_may_begin_with_comments(open_client: Callable[..., Client], tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(f"// made by hand\n# twice\n{PLAN}", encoding="utf-8")
    client = open_client(PlanEngine([], tmp_path))
    for plan in (tmp_path / "plan.json", f"// made by hand\n{PLAN}"):
        assert not client.validate(plan)
        assert client.query(plan, {"a": TABLE}).num_rows == 1
