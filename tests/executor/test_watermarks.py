"""Watermarks: the least over inputs and channels, whatever reads them, in both modes and wherever pipelines run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pytest

import tidegate
from tidegate.executor.runtime.meters import Meter, MeteredStream
from tidegate.operators.core.operator import UNBOUNDED, least_watermark
from tidegate.operators.core.streams import BatchStream

from ..loops.queries import QUERIES
from ..on_channels import on_channels
from .plans import crossed, filtered, joined, plan, read, summed, union

A, B = read("a", "k", "v"), read("b", "k", "w")
TWO: Mapping[str, bytes | str] = {
    "join": plan(joined(A, B, 2), "k", "v", "k2", "w").json,
    "join of a filter and groups": plan(joined(filtered(A, 1, 0), summed(B), 2), "k", "v", "k2", "w").json,
    "union": plan(union(A, B), "k", "v").json,
    "cross": plan(crossed(A, B), "k", "v", "k2", "w").json,
}
ROWS = {
    "a": pa.table({"k": range(1000), "v": [1] * 1000}),
    "b": pa.table({"k": range(1000), "w": [1] * 1000}),
}


@pytest.fixture(scope="module")
def client() -> Iterator[tidegate.Client]:
    with tidegate.local(roots=()) as client:
        yield client


def said(task: tidegate.Task, **watermarks: int | None) -> int | None:
    """The BARRIER's watermark of an epoch in which these sources are fed."""
    for source, watermark in watermarks.items():
        task.add_split(source, ROWS[source].slice(0, 30), watermark=watermark)
    task.request_barrier()
    epoch = next(task.epochs())
    epoch.table()
    return epoch.watermark


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
@pytest.mark.parametrize("name", TWO)
def test_the_result_has_the_least_of_its_inputs(client: tidegate.Client, name: str, mode: str, channels: int) -> None:
    with client.create_task(TWO[name], **on_channels(channels, mode)) as task:
        assert said(task, a=70, b=50) == 50
        assert said(task, a=71, b=90) == 71


def test_exchanges_pass_on_the_least(client: tidegate.Client) -> None:
    ones = [1] * 200_000
    rows = {source: pa.table({"k": range(200_000), column: ones}) for source, column in (("a", "v"), ("b", "w"))}
    with client.create_task(plan(summed(union(A, B)), "k", "total").json, **on_channels(3)) as task:
        for watermarks in ((70, 50), (71, 90)):
            for source, watermark in zip(("a", "b"), watermarks, strict=True):
                task.add_split(source, rows[source], watermark=watermark)
            task.request_barrier()
            epoch = next(task.epochs())
            epoch.table()
            assert epoch.watermark == min(watermarks)
        assert "Exchange" in {operator.operator for operator in task.statistics().operators}


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_a_source_without_a_watermark_holds_everybody_back(client: tidegate.Client, mode: str) -> None:
    with client.create_task(TWO["join"], mode=mode) as task:
        assert said(task, a=70, b=None) is None


def test_a_source_that_was_not_fed_holds_nobody_back_in_a_per_epoch_task(client: tidegate.Client) -> None:
    with client.create_task(TWO["join"]) as task:
        assert said(task, a=70) == 70


def test_a_source_of_a_continuous_task_stands_where_it_was(client: tidegate.Client) -> None:
    """Until it has said one nobody knows, and it never goes back."""
    with client.create_task(TWO["join"], mode="continuous") as task:
        assert said(task, a=70) is None
        assert said(task, b=50) == 50
        assert said(task, a=90) == 50
        assert said(task, a=80, b=85) == 85
        assert said(task, b=None) == 85


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_a_source_that_has_ended_holds_nobody_back(client: tidegate.Client, mode: str) -> None:
    with client.create_task(TWO["join"], mode=mode) as task:
        task.add_split("b", ROWS["b"])
        task.no_more_splits("b")
        assert said(task, a=70) == 70
        assert said(task, a=90) == 90


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_a_table_holds_nobody_back(client: tidegate.Client, mode: str) -> None:
    with client.create_task(TWO["join"], mode=mode, tables={"b": ROWS["b"]}) as task:
        assert said(task, a=70) == 70
        assert said(task, a=90) == 90


@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_an_epoch_that_fails_makes_nothing_final(client: tidegate.Client, mode: str) -> None:
    numbers = plan(summed(A), "k", "total").json
    with client.create_task(numbers, mode=mode, on_error="skip_epoch") as task:
        for watermark in (5, 9):
            task.add_split("a", pa.table({"k": [1, 1], "v": [2**63 - 1, 1]}), watermark=watermark)
            task.request_barrier()
        task.add_split("a", ROWS["a"], watermark=7)
        task.request_barrier()
        assert [epoch.watermark for _, epoch in zip(range(3), task.epochs(), strict=False)] == [None, None, 7]


@pytest.mark.parametrize("loops", ["auto", "general"])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["per_epoch", "continuous"])
def test_loops_pass_on_the_least(client: tidegate.Client, mode: str, channels: int, loops: str) -> None:
    query = QUERIES["reachability"]
    with client.create_task(query.plan(), **on_channels(channels, mode), loops=loops) as task:
        rows = pa.table({"a": [0, 1], "b": [1, 2], "c": [0, 0]})
        for watermarks in ((4, 6), (8, 7)):
            for source, watermark in zip(task.sources, watermarks, strict=True):
                task.add_split(source, rows, watermark=watermark)
            task.request_barrier()
            epoch = next(task.epochs())
            epoch.table()
            assert epoch.watermark == min(watermarks)


@pytest.mark.parametrize(("inputs", "sources", "expected"), [((7, 5), (6,), 5), ((7,), (), 7), ((7, None), (), None)])
def test_a_stream_has_the_least_of_what_it_is_made_of(
    inputs: tuple[int | None, ...], sources: tuple[int | None, ...], expected: int | None
) -> None:
    schema = pa.schema([("k", pa.int64())])
    streams = [BatchStream(schema, ()) for _ in inputs]
    for one, watermark in zip(streams, inputs, strict=True):
        one.watermark = watermark
    stream = MeteredStream(schema, iter(()), Meter("Join", "here"), inputs=streams)
    stream.reads({f"source {number}": watermark for number, watermark in enumerate(sources)})
    assert list(stream) == []
    assert stream.watermark == expected


def test_nothing_is_less_than_everything() -> None:
    assert least_watermark(()) == UNBOUNDED
    assert least_watermark((3, UNBOUNDED, 2)) == 2
    assert least_watermark((3, None)) is None
