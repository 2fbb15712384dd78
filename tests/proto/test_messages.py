"""Values survive the wire: what the client says is what the executor hears, and back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.proto import errors
from tidegate.proto.encoding import messages, plan_answers
from tidegate.proto.statistics import (
    LoopStatistics,
    OperatorStatistics,
    SourceProgress,
    SplitStatistics,
    StageStatistics,
    Statistics,
)
from tidegate.proto.tidegate.v1 import plans_pb2, tasks_pb2
from tidegate.proto.values import (
    Added,
    Capabilities,
    Cursor,
    Determinism,
    ErrorValue,
    FileSplit,
    InlineSplit,
    Loops,
    OnError,
    PlanBytes,
    SourceInfo,
    Spill,
    TaskInfo,
    TaskOptions,
    TaskPhase,
)

counts = st.integers(0, 2**63 - 1)
text = st.text(max_size=8)
options = st.builds(
    TaskOptions,
    determinism=st.sampled_from(Determinism),
    on_error=st.sampled_from(OnError),
    spill=st.sampled_from(Spill),
    channels=st.integers(0, 2**32 - 1),
    max_pending_epochs=st.integers(0, 2**32 - 1),
    memory_limit=counts,
    spill_quota=counts,
    idle_seconds=st.floats(0, 1e9),
    loops=st.sampled_from(Loops),
    loop_rows=counts,
    loop_seconds=st.floats(0, 1e9),
    epoch_seconds=st.floats(0, 1e9),
    parallel_threshold_seconds=st.floats(0, 1e9),
    spark_threshold_bytes=counts,
    time_zone=text,
)
SCHEMA = pa.schema([pa.field("n", pa.int64(), nullable=False), ("d", pa.decimal128(10, 2))])


def wire(message):
    """The message as the other side has it."""
    return type(message).FromString(message.SerializeToString())


@given(options)
def test_options_survive(value: TaskOptions) -> None:
    assert messages.options_value(wire(messages.options_message(value)), TaskOptions()) == value


@given(options)
def test_options_left_out_are_the_servers_defaults(defaults: TaskOptions) -> None:
    assert messages.options_value(tasks_pb2.TaskOptions(), defaults) == defaults


def test_zero_is_a_choice_and_not_an_option_left_out() -> None:
    message = tasks_pb2.TaskOptions(spill_quota=0, idle_seconds=0)
    assert messages.options_value(message, TaskOptions(idle_seconds=5.0)) == TaskOptions(
        spill_quota=0, idle_seconds=0.0
    )


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(
        errors.InvalidRequest, match=r"there is no determinism 77; there are: 1 \(strict\), 2 \(relaxed\)"
    ):
        messages.options_value(tasks_pb2.TaskOptions(determinism=77), TaskOptions())  # type: ignore[arg-type]


@given(
    st.builds(
        FileSplit,
        path=st.text(min_size=1, max_size=9),
        format=text,
        rows=st.none() | st.tuples(st.integers(0, 5), st.integers(5, 2**40)),
        row_groups=st.none() | st.lists(st.integers(0, 2**31), min_size=1, max_size=3).map(tuple),
        watermark=st.none() | st.integers(-(2**63), 2**63 - 1),
    )
)
def test_file_splits_survive(split: FileSplit) -> None:
    assert messages.split_value(wire(messages.split_message(split))) == split


def test_inline_splits_survive() -> None:
    batch = pa.record_batch([pa.array([1, 2], pa.int64()), pa.nulls(2, pa.decimal128(10, 2))], SCHEMA)
    split = messages.split_value(
        wire(messages.split_message(InlineSplit(schema=SCHEMA, batches=(batch,), watermark=7)))
    )
    assert isinstance(split, InlineSplit)
    assert (split.schema, split.batches, split.watermark) == (SCHEMA, (batch,), 7)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (tasks_pb2.Split(), "the split is empty"),
        (tasks_pb2.Split(file=tasks_pb2.FileSplit()), "has no path"),
        (tasks_pb2.Split(file=tasks_pb2.FileSplit(path="f", end_row=3)), "needs both first_row and end_row"),
        (tasks_pb2.Split(file=tasks_pb2.FileSplit(path="f", first_row=4, end_row=3)), "ends before it starts"),
        (tasks_pb2.Split(inline=tasks_pb2.InlineSplit()), "not a valid Arrow IPC stream"),
    ],
)
def test_a_malformed_split_is_refused(message: tasks_pb2.Split, sentence: str) -> None:
    with pytest.raises(errors.InvalidRequest, match=sentence):
        messages.split_value(message)


@given(
    st.builds(
        TaskInfo,
        id=text,
        state=st.sampled_from(TaskPhase),
        schema=st.just(SCHEMA),
        sources=st.lists(
            st.builds(
                SourceInfo,
                name=text,
                schema=st.just(SCHEMA),
                static=st.booleans(),
                split_kinds=st.lists(text, max_size=2).map(tuple),
                last_added=counts,
                last_sealed=counts,
                ended=st.booleans(),
            ),
            max_size=2,
        ).map(tuple),
        options=options,
        statistics=st.builds(
            Statistics,
            barriers_requested=counts,
            spilled_bytes=counts,
            splits=st.dictionaries(text, st.builds(SplitStatistics, added=counts, finished=counts), max_size=2),
            progress=st.dictionaries(
                text,
                st.builds(
                    SourceProgress, rows=counts, total=st.none() | counts, text_bytes=counts, total_text_bytes=counts
                ),
                max_size=2,
            ),
            operators=st.lists(
                st.builds(OperatorStatistics, operator=text, place=text, rows_in=counts, run_us=counts), max_size=2
            ).map(tuple),
            loops=st.lists(
                st.builds(LoopStatistics, name=text, place=text, rounds=counts, last_rows=st.lists(counts).map(tuple)),
                max_size=2,
            ).map(tuple),
            stages=st.lists(
                st.builds(
                    StageStatistics, stage=counts, pipelines=st.lists(text).map(tuple), tasks=counts, done=counts
                ),
                max_size=2,
            ).map(tuple),
        ),
        error=st.none() | st.builds(ErrorValue, reason=text, message=text),
        sealed_epoch=counts,
        completed_epoch=counts,
        acknowledged=st.builds(Cursor, st.integers(1, 9), counts),
        warnings=st.lists(text, max_size=2).map(tuple),
    )
)
def test_tasks_survive(task: TaskInfo) -> None:
    assert messages.task_value(wire(messages.task_message(task))) == task


@pytest.mark.parametrize("plan", [PlanBytes(binary=b""), PlanBytes(binary=b"\0\xff"), PlanBytes(json="{}")])
def test_plans_survive(plan: PlanBytes) -> None:
    assert messages.plan_value(wire(messages.plan_message(plan))) == plan


def test_a_request_without_a_plan_is_refused() -> None:
    with pytest.raises(errors.InvalidRequest, match=r"set plan\.binary or plan\.json"):
        messages.plan_value(tasks_pb2.PlanBytes())


def test_answers_about_plans_survive() -> None:
    problem = errors.Problem(place="relations[0]", reason="UNKNOWN_FUNCTION", message="no such function: f")
    capabilities = Capabilities(version="1", dialect="name: tidegate", engines={"duckdb": "2.0"}, principal="alice")
    assert plan_answers.problems_value(wire(plan_answers.validation_message([problem]))) == [problem]
    assert plan_answers.capabilities_value(wire(plan_answers.capabilities_message(capabilities))) == capabilities


def test_an_added_split_survives() -> None:
    added = Added(sequence=4, duplicate=True, epoch=2)
    assert messages.added_value(wire(messages.added_message(added))) == added


def test_every_field_of_the_statistics_travels() -> None:
    """A counter added to the message must be one of the value's, and the other way round."""
    for message, value in (
        (tasks_pb2.Statistics, Statistics),
        (tasks_pb2.OperatorStatistics, OperatorStatistics),
        (tasks_pb2.LoopStatistics, LoopStatistics),
        (tasks_pb2.SplitStatistics, SplitStatistics),
        (tasks_pb2.SourceProgress, SourceProgress),
    ):
        assert {field.name for field in message.DESCRIPTOR.fields} == set(value.__dataclass_fields__)
    assert {field.name for field in plans_pb2.Problem.DESCRIPTOR.fields} == set(errors.Problem.__dataclass_fields__)


@given(st.builds(Cursor, st.integers(1, 9), counts, st.none() | st.sampled_from((0, 1)) | counts))
def test_a_cursor_says_its_run_or_that_its_reader_does_not_know_of_runs(cursor: Cursor) -> None:
    message = tasks_pb2.Cursor.FromString(messages.cursor_message(cursor).SerializeToString())
    assert message.HasField("run") is (cursor.run is not None)
    assert (messages.cursor_value(message), messages.cursor_value(message).run) == (cursor, cursor.run)
