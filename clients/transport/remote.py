"""The service over gRPC."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, partial
from typing import Final, TypeVar

import pyarrow as pa

from ..proto.arrow.arrow_ipc import sendable
from ..proto.encoding import messages, plan_answers
from ..proto.encoding.found_files import found_value
from ..proto.encoding.frames import decode_frames, decode_read
from ..proto.errors import InvalidRequest, NotFound, Problem, Refused, RequestError
from ..proto.graph import GraphService
from ..proto.spark_frames import FrameFeeds
from ..proto.tidegate.v1 import plans_pb2 as plans
from ..proto.tidegate.v1 import tasks_pb2 as pb
from ..proto.values import (
    MIB,
    NO_WISHES,
    Added,
    AddRequest,
    Capabilities,
    Checkpoint,
    Committed,
    Cursor,
    Explanation,
    FileSplit,
    FoundFile,
    Frame,
    InlineSplit,
    PlanBytes,
    Reader,
    Seal,
    Split,
    TaskInfo,
    TaskOptions,
    Transacted,
    Transaction,
)
from ..task_options import ChosenOptions
from .access import Access
from .channel import Channel
from .inline_files import InlineFiles
from .readahead import ReadAhead
from .result_streams import Streams
from .sending import are_lost

A = TypeVar("A")

TASKS: Final = "/tidegate.v1.TaskService/"
PLANS: Final = "/tidegate.v1.PlanService/"
POLL_BYTES: Final = 2 * MIB
LONGEST_WAIT: Final = 3600.0  # seconds; servers wait less


class RemoteService:
    """Implements `proto.service.Service`. Repeatable calls are repeated while the server cannot be reached.

    With `answer_seconds`, a call whose answer does not come in time raises `Unavailable`.
    """

    def __init__(self, access: Access, *, answer_seconds: float | None = None) -> None:
        self._channel = Channel(access, answer_seconds)
        self._streams = Streams(self._channel)
        self._schemas: dict[str, pa.Schema] = {}
        self._ahead: dict[str, ReadAhead] = {}
        self._inline = InlineFiles(self)

    @property
    def address(self) -> str:
        return self._channel.access.address

    @property
    def access(self) -> Access:
        """The access to the server, which other processes may use too."""
        return self._channel.access

    @cached_property
    def principal(self) -> str:
        return self.capabilities().principal

    @property
    def large_results(self) -> str:
        """The transport of large results: "Flight", or "gRPC: " and the reason."""
        return self._streams.way

    @property
    def graphs(self) -> GraphService:
        raise Refused(
            "a graph cannot run on a server: its executors are code of this process, which is not sent to a server; "
            "run the graph with tidegate.local()",
            reason="GRAPH_NOT_LOCAL",
        )

    def adopt_spark(self, session: object) -> str:  # noqa: ARG002 - whatever it is, it is not the server's
        raise _spark_is_the_servers()

    def over_frames(self, plan: PlanBytes, options: TaskOptions, feeds: FrameFeeds) -> object:  # noqa: ARG002
        raise _spark_is_the_servers()

    def create_task(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        tables: Mapping[str, Sequence[Split]],
        *,
        restore: str = "",
        request: str = "",
    ) -> TaskInfo:
        """Make a task. Clients that give the same unguessable `request` share one."""
        if options.spark:
            raise _spark_is_the_servers()
        names = options.chosen if isinstance(options, ChosenOptions) else messages.OPTIONS
        message = pb.CreateTaskRequest(
            plan=messages.plan_message(plan),
            options=messages.options_message(options, names),
            tables={name: pb.Table(splits=map(_table_message, splits)) for name, splits in tables.items()},
            restore=restore,
            request=request or secrets.token_hex(16),  # so that a repeated call finds the task of a lost answer
        )
        with _sides(split for splits in tables.values() for split in splits):
            answer = self._channel.call(TASKS + "CreateTask", message, pb.CreateTaskResponse.FromString)
        return self._known(messages.task_value(answer.task))

    def add_splits(self, task: str, request: AddRequest) -> tuple[list[Added], int | None]:
        request = replace(request, splits=tuple(request.splits))
        return self._sent_again(task, request, lambda: self._add_splits(task, request))

    def _sent_again(self, task: str, request: AddRequest, call: Callable[[], A]) -> A:
        """The answer of a call whose rows may have been sent ahead. If the server has lost them, because it started
        again, they are sent once more.
        """
        while True:
            try:
                return call()
            except NotFound as error:
                if not self._inline.forget_lost(task, request, error):
                    raise

    def _add_splits(self, task: str, request: AddRequest) -> tuple[list[Added], int | None]:
        splits = tuple(request.splits)
        message = self._adding(task, splits, request)
        again = request.seal is not None or all(split.sequence for split in message.splits)
        with _sides(split for _, split, _ in splits):
            answer = self._channel.call(TASKS + "AddSplits", message, pb.AddSplitsResponse.FromString, again=again)
        self._inline.added(message)
        return list(map(messages.added_value, answer.splits)), answer.epoch if answer.HasField("epoch") else None

    def transact(self, task: str, transaction: Transaction, request: AddRequest) -> Transacted:
        splits = tuple(request.splits)
        while True:
            fitted = self._inline.fitted_together(task, [split for _, split, _ in splits])
            message = pb.AddSplitsRequest(
                task=task,
                splits=[
                    pb.SplitOfSource(source=source, split=messages.split_message(split))
                    for (source, _, _), split in zip(splits, fitted.splits, strict=True)
                ],
                epoch=request.epoch,
                barrier=messages.seal_message(request.seal),
                transaction=messages.transaction_message(transaction),
            )
            try:
                with _sides(split for _, split, _ in splits):
                    answer = self._channel.call(TASKS + "AddSplits", message, pb.AddSplitsResponse.FromString)
            except RequestError as error:
                if fitted.files:
                    self.drop_uploads(task, fitted.group)
                if not are_lost(error, fitted.files):
                    raise
            else:
                break
        transacted = messages.transacted_value(answer)
        if fitted.files and transacted.replayed:
            self.drop_uploads(task, fitted.group)
        return transacted

    def find_files(self, task: str, source: str, split: FileSplit, *, pieces: bool = False) -> Sequence[FoundFile]:
        request = pb.FindFilesRequest(task=task, source=source, file=messages.split_message(split).file, pieces=pieces)
        answer = self._channel.call(TASKS + "FindFiles", request, pb.FindFilesResponse.FromString)
        return tuple(map(found_value, answer.files))

    def last_transaction(self, task: str, application: str) -> Committed | None:
        request = pb.GetTransactionRequest(task=task, application=application)
        answer = self._channel.call(TASKS + "GetTransaction", request, pb.GetTransactionResponse.FromString)
        return Committed(version=answer.version, epoch=answer.epoch) if answer.HasField("version") else None

    def run_epoch(
        self, task: str, request: AddRequest, cursor: Cursor, *, acknowledge: Cursor | None = None
    ) -> Sequence[Frame]:
        request = replace(request, splits=tuple(request.splits))
        return self._sent_again(task, request, lambda: self._run_epoch(task, request, cursor, acknowledge))

    def _run_epoch(self, task: str, request: AddRequest, cursor: Cursor, acknowledge: Cursor | None) -> Sequence[Frame]:
        splits = tuple(request.splits)
        message = self._adding(task, splits, request)
        getattr(message.read, "from").CopyFrom(messages.cursor_message(cursor))
        if acknowledge is not None:
            message.read.acknowledge.CopyFrom(messages.cursor_message(acknowledge))
        schema = self._schema(task)
        with _sides(split for _, split, _ in splits):
            read = partial(decode_read, schema=schema)
            frames = self._channel.converse(TASKS + "AddSplits", TASKS + "Feed", message, read)
        self._inline.added(message)
        return frames

    def _adding(
        self, task: str, splits: Iterable[tuple[str, Split, int | None]], request: AddRequest
    ) -> pb.AddSplitsRequest:
        return pb.AddSplitsRequest(
            task=task,
            splits=[
                pb.SplitOfSource(
                    source=source,
                    split=messages.split_message(self._inline.fitted(task, source, split, number)),
                    sequence=number or 0,
                )
                for source, split, number in splits
            ],
            epoch=request.epoch,
            barrier=messages.seal_message(request.seal),
        )

    def upload(self, task: str, name: str, chunks: Iterable[bytes], *, group: str = "") -> str:
        def requests() -> Iterator[pb.UploadRequest]:
            yield pb.UploadRequest(task=task, name=name, group=group)
            for chunk in chunks:
                yield pb.UploadRequest(data=chunk)

        return self._channel.send(TASKS + "Upload", requests, pb.UploadResponse.FromString).path

    def drop_uploads(self, task: str, group: str) -> None:
        request = pb.DropUploadsRequest(task=task, group=group)
        self._channel.call(TASKS + "DropUploads", request, pb.DropUploadsResponse.FromString)

    def no_more_splits(self, task: str, source: str | None = None, through: Mapping[str, int] | None = None) -> None:
        request = pb.NoMoreSplitsRequest(task=task, source=source, through=through)
        self._channel.call(TASKS + "NoMoreSplits", request, pb.NoMoreSplitsResponse.FromString)

    def request_barrier(self, task: str, epoch: int | None = None, seal: Seal = NO_WISHES) -> int:
        # A repeated request without a number joins the epoch that the first one sealed, unless another client added
        # meanwhile.
        request = pb.RequestBarrierRequest(
            task=task,
            epoch=epoch,
            through=seal.through,
            checkpoint=seal.checkpoint,
            watermarks=seal.watermarks,
            idle=seal.idle,
            after=seal.after,
        )
        return self._channel.call(TASKS + "RequestBarrier", request, pb.RequestBarrierResponse.FromString).epoch

    def list_checkpoints(self, task: str) -> Sequence[Checkpoint]:
        request = pb.ListCheckpointsRequest(task=task)
        answer = self._channel.call(TASKS + "ListCheckpoints", request, pb.ListCheckpointsResponse.FromString)
        return [messages.checkpoint_value(checkpoint) for checkpoint in answer.checkpoints]

    def next(
        self,
        task: str,
        cursor: Cursor,
        *,
        acknowledge: Cursor | None = None,
        max_bytes: int | None = None,
        wait: float = 0.0,
    ) -> Sequence[Frame]:
        ahead = self._ahead.pop(task, None)
        if ahead is not None and max_bytes is None:
            if frames := ahead.take(cursor, acknowledge):
                if not ahead.done:
                    self._ahead[task] = ahead
                return frames
            acknowledge = ahead.unsaid(acknowledge)
        elif ahead is not None:
            ahead.close()
        request = pb.NextRequest(
            task=task,
            acknowledge=messages.cursor_message(acknowledge) if acknowledge else None,
            max_bytes=POLL_BYTES if max_bytes is None else max_bytes,
            wait_ms=int(min(wait, LONGEST_WAIT) * 1000),
            **{"from": messages.cursor_message(cursor)},
        )
        schema = self._schema(task)
        frames = self._channel.call(TASKS + "Next", request, partial(decode_frames, schema=schema))
        if max_bytes is None and ReadAhead.worthwhile(frames):
            self._ahead[task] = ReadAhead(self._channel, self._streams, task, schema, frames)
        return frames

    def acknowledge(self, task: str, cursor: Cursor) -> None:
        request = pb.AcknowledgeRequest(task=task, cursor=messages.cursor_message(cursor))
        self._channel.call(TASKS + "Acknowledge", request, pb.AcknowledgeResponse.FromString)

    def get_task(self, task: str) -> TaskInfo:
        answer = self._channel.call(TASKS + "GetTask", pb.GetTaskRequest(task=task), pb.Task.FromString)
        return self._known(messages.task_value(answer))

    def list_tasks(self) -> Sequence[TaskInfo]:
        tasks: dict[str, TaskInfo] = {}
        request, more = pb.ListTasksRequest(), True
        while more:
            try:
                answer = self._channel.call(TASKS + "ListTasks", request, pb.ListTasksResponse.FromString)
            except NotFound:  # the last task of the answer before has been deleted
                if not request.after:
                    raise
                tasks, request = {}, pb.ListTasksRequest()
                continue
            tasks.update((task.id, messages.task_value(task)) for task in answer.tasks)
            more = answer.more
            if more:
                request = pb.ListTasksRequest(after=answer.tasks[-1].id)
        return list(tasks.values())

    def cancel_task(self, task: str) -> None:
        self._channel.call(TASKS + "CancelTask", pb.CancelTaskRequest(task=task), pb.CancelTaskResponse.FromString)

    def recover_task(self, task: str, skip: Sequence[tuple[str, int]] = (), request: str = "") -> TaskInfo:
        numbers = [pb.SplitNumber(source=source, sequence=sequence) for source, sequence in skip]
        message = pb.RecoverTaskRequest(task=task, skip=numbers, request=request or secrets.token_hex(16))
        answer = self._channel.call(TASKS + "RecoverTask", message, pb.RecoverTaskResponse.FromString)
        return self._known(messages.task_value(answer.task))

    def delete_task(self, task: str, reader: Reader | None = None) -> None:
        ahead = self._ahead.pop(task, None)
        self._schemas.pop(task, None)
        self._inline.forget(task)
        try:
            request = pb.DeleteTaskRequest(task=task)
            if reader is not None:
                request.reader, request.readers = reader.number, reader.count
            self._channel.call(TASKS + "DeleteTask", request, pb.DeleteTaskResponse.FromString)
            if ahead is not None:
                ahead.end()  # with its task
        finally:
            if ahead is not None:
                ahead.close()

    def validate(self, plan: PlanBytes, options: TaskOptions) -> tuple[Sequence[Problem], Sequence[str]]:
        names = options.chosen if isinstance(options, ChosenOptions) else messages.OPTIONS
        request = plans.ValidateRequest(
            plan=messages.plan_message(plan), options=messages.options_message(options, names)
        )
        answer = self._channel.call(PLANS + "Validate", request, plans.ValidateResponse.FromString)
        return tuple(plan_answers.problems_value(answer)), tuple(answer.warnings)

    def explain(
        self,
        plan: PlanBytes,
        options: TaskOptions,
        static_sources: Sequence[str] = (),
        rows: Mapping[str, int] | None = None,
    ) -> Explanation:
        names = options.chosen if isinstance(options, ChosenOptions) else messages.OPTIONS
        request = plans.ExplainRequest(
            plan=messages.plan_message(plan),
            options=messages.options_message(options, names),
            static_sources=static_sources,
            rows=rows,
        )
        answer = self._channel.call(PLANS + "Explain", request, plans.ExplainResponse.FromString)
        return Explanation(text=answer.text, json=answer.json)

    def capabilities(self) -> Capabilities:
        request = plans.CapabilitiesRequest()
        return plan_answers.capabilities_value(
            self._channel.call(PLANS + "Capabilities", request, plans.CapabilitiesResponse.FromString)
        )

    def close(self) -> None:
        for ahead in self._ahead.values():
            ahead.close()
        self._ahead.clear()
        self._streams.close()
        self._channel.close()

    def _known(self, task: TaskInfo) -> TaskInfo:
        self._schemas[task.id] = task.schema
        return task

    def _schema(self, task: str) -> pa.Schema:
        if task not in self._schemas:
            self.get_task(task)
        return self._schemas[task]


@contextmanager
def _sides(splits: Iterable[Split]) -> Iterator[None]:
    """A context that adds to the error of a missing file that this machine has it: paths are the server's."""
    try:
        yield
    except NotFound as missing:
        here = [split.path for split in splits if isinstance(split, FileSplit) and os.path.exists(split.path)]
        if missing.reason != "FILE_NOT_FOUND" or not any(path in missing.message for path in here):
            raise
        sentence = (
            f"{missing.message}; the file is on the client's machine: tidegate.upload(path) sends it to the server"
        )
        raise NotFound(sentence, reason=missing.reason) from None


def _table_message(split: Split) -> pb.Split:
    return messages.split_message(sendable(split) if isinstance(split, InlineSplit) else split)


def _spark_is_the_servers() -> InvalidRequest:
    return InvalidRequest(
        "spark is not an option of a task on a server: the task runs on the server's Spark (tidegate serve --spark "
        'MASTER); leave spark out and keep executor="spark"',
        reason="SPARK_OF_SERVER",
    )
