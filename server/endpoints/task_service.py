"""TaskService: tasks, their splits and barriers, their results."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Final, ParamSpec, TypeVar

from ...executor.api.ownership import acts_for
from ...executor.runtime.ceilings import InUse
from ...proto.encoding import messages
from ...proto.encoding.found_files import found_message
from ...proto.encoding.frames import FramesEncoder, encode_added, encode_frames
from ...proto.errors import Exhausted, InvalidRequest, NotFound
from ...proto.tidegate.v1 import tasks_pb2 as pb
from ...proto.values import Added, AddRequest, Frame, Reader, Split, TaskInfo
from ..calls.answering import Context, Endpoint, called
from ..calls.backend import Backend
from ..calls.call_threads import Threads
from ..calls.long_polls import Waiting
from ..calls.request_reading import Reading
from ..calls.unread_answers import UnreadAnswers
from ..setup.pools import Pools
from ..setup.settings import Settings
from .joined_batches import joined
from .results import LONGEST_WAIT, answer_bytes, results
from .upload_endpoint import Uploads

P = ParamSpec("P")
R = TypeVar("R")

SHORTEST_INTERVAL: Final = 0.05  # of WatchTask
MOST_LOOKS: Final = 400  # a second, by all WatchTask calls of a principal
LONGEST_LOAN: Final = 0.05  # seconds that an answer waits for a thread that is lent to its task
MANY_SPLITS: Final = 1_000
LONGEST_FEED: Final = 60.0  # seconds; then the caller has to show a token again


class Tasks(Endpoint):
    """Answers the calls of TaskService."""

    descriptor = pb.DESCRIPTOR.services_by_name["TaskService"]
    large = frozenset({"CreateTask", "AddSplit", "AddSplits", "Feed", "Upload"})

    def __init__(
        self,
        backend: Backend,
        pools: Pools,
        waiting: Waiting,
        settings: Settings,
        streams: InUse,
        reading: Reading,
        unread: UnreadAnswers,
    ) -> None:
        super().__init__(reading, unread)
        self._streams = streams
        self._watches: Counter[str] = Counter()
        """The number of each principal's `WatchTask` calls."""
        self._backend = backend
        self._waiting = waiting
        self._defaults = settings.defaults
        self._pools = pools
        self._uploads = Uploads(backend, pools.uploads)

    async def stop(self) -> None:
        await self._uploads.stop()

    async def _control(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return await called(self._pools.control, function, *args, **kwargs)

    async def create_task(self, request: pb.CreateTaskRequest, _: Context) -> pb.CreateTaskResponse:
        return pb.CreateTaskResponse(task=await called(self._pools.planning, self._create, request))

    def _create(self, request: pb.CreateTaskRequest) -> pb.Task:
        plan = messages.plan_value(request.plan)
        options = messages.options_value(request.options, self._defaults)
        tables = {
            name: [messages.split_value(split) for split in table.splits] for name, table in request.tables.items()
        }
        info = self._backend.create_task(plan, options, tables, restore=request.restore, request=request.request)
        return messages.task_message(info)

    async def add_split(self, request: pb.AddSplitRequest, _: Context) -> pb.AddSplitResponse:
        several = pb.AddSplitsRequest(task=request.task)
        several.splits.add(source=request.source, split=request.split, sequence=request.sequence)
        if request.HasField("epoch"):
            several.epoch = request.epoch
        added, _epoch = await called(self._feeding(several), self._add, several)
        return messages.added_message(added[0])

    async def add_splits(self, request: pb.AddSplitsRequest, _: Context) -> bytes:
        return await self._added(request)

    async def feed(self, requests: AsyncIterator[pb.AddSplitsRequest], context: Context) -> None:
        with self._streams.one(acts_for()):
            began = time.monotonic()
            request = await self._waiting.message(requests)
            while request is not None:
                await self.write(await self._added(request), context)
                request = await self._following(requests)
                if time.monotonic() - began > LONGEST_FEED:
                    return

    async def _following(self, requests: AsyncIterator[pb.AddSplitsRequest]) -> pb.AddSplitsRequest | None:
        """The next request of a `Feed`; None if the client has no more, or keeps more of them waiting than it may."""
        try:
            return await self._waiting.message(requests)
        except Exhausted as full:
            if full.reason != "TOO_MANY_CALLS":
                raise
            return None

    async def _added(self, request: pb.AddSplitsRequest) -> bytes:
        """Add, seal and read. If the task's epochs are short, a spare thread is lent to the task meanwhile."""
        feeding = self._feeding(request)
        if not request.HasField("read"):
            return (await called(feeding, self._add_or_transact, request, wake=True)).SerializeToString()
        epoch = _Epoch(self._backend, request, self.unread)

        def add(*, wake: bool) -> pb.AddSplitsResponse:
            epoch.check()
            return self._add_or_transact(request, wake=wake)

        if not feeding.takes_long_calls:
            return epoch.poll(await called(feeding, add, wake=True))

        def add_and_work() -> bytes:
            return epoch.work_and_poll(add(wake=False))

        return await feeding.long_call(add_and_work, epoch.so_far, LONGEST_LOAN)

    def _feeding(self, request: pb.AddSplitsRequest) -> Threads:
        """The threads for a request: `listing` for files, whose folders may be slow, and for very many splits.

        So many splits are not even searched for files, because that would hold up the event loop.
        """
        splits = request.splits
        files = len(splits) > MANY_SPLITS or any(split.split.WhichOneof("kind") == "file" for split in splits)
        return self._pools.listing if files else self._pools.feeding

    def _add_or_transact(self, request: pb.AddSplitsRequest, *, wake: bool) -> pb.AddSplitsResponse:
        if request.HasField("transaction"):
            return self._transact(request, wake=wake)
        added, epoch = self._add(request, wake=wake)
        return pb.AddSplitsResponse(splits=map(messages.added_message, added), epoch=epoch)

    def _add(self, request: pb.AddSplitsRequest, *, wake: bool = True) -> tuple[list[Added], int | None]:
        # Decoded one by one as the executor takes them, so that splits after a refused one cost nothing.
        splits = (
            (split.source, messages.split_value(split.split), messages.sequence_value(split.sequence))
            for split in request.splits
        )
        return self._backend.add_splits(request.task, _add_request(request, splits), wake=wake)

    def _transact(self, request: pb.AddSplitsRequest, *, wake: bool) -> pb.AddSplitsResponse:
        if request.barrier.through or any(split.sequence for split in request.splits):
            raise InvalidRequest(
                "a transaction has sequences or `through`: leave both out, because its splits get the next numbers "
                "and its barrier seals only these splits",
                reason="BAD_TRANSACTION",
            )
        splits = ((split.source, messages.split_value(split.split), None) for split in request.splits)
        transaction = messages.transaction_value(request.transaction)
        transacted = self._backend.transact(request.task, transaction, _add_request(request, splits), wake=wake)
        return messages.transacted_message(transacted, sealed=request.HasField("barrier"))

    async def find_files(self, request: pb.FindFilesRequest, _: Context) -> pb.FindFilesResponse:
        split = messages.file_value(request.file)
        find = self._backend.find_files
        files = await called(self._pools.listing, find, request.task, request.source, split, pieces=request.pieces)
        return pb.FindFilesResponse(files=map(found_message, files))

    async def get_transaction(self, request: pb.GetTransactionRequest, _: Context) -> pb.GetTransactionResponse:
        last = await self._control(self._backend.last_transaction, request.task, request.application)
        if last is None:
            return pb.GetTransactionResponse()
        return pb.GetTransactionResponse(version=last.version, epoch=last.epoch)

    async def upload(self, requests: AsyncIterator[pb.UploadRequest], _: Context) -> pb.UploadResponse:
        return pb.UploadResponse(path=await self._uploads.receive(requests))

    async def drop_uploads(self, request: pb.DropUploadsRequest, _: Context) -> pb.DropUploadsResponse:
        await self._control(self._backend.drop_uploads, request.task, request.group)
        return pb.DropUploadsResponse()

    async def no_more_splits(self, request: pb.NoMoreSplitsRequest, _: Context) -> pb.NoMoreSplitsResponse:
        source = request.source if request.HasField("source") else None
        await self._control(self._backend.no_more_splits, request.task, source, dict(request.through) or None)
        return pb.NoMoreSplitsResponse()

    async def request_barrier(self, request: pb.RequestBarrierRequest, _: Context) -> pb.RequestBarrierResponse:
        epoch = request.epoch if request.HasField("epoch") else None
        seal = messages.seal_value(request)
        return pb.RequestBarrierResponse(
            epoch=await self._control(self._backend.request_barrier, request.task, epoch, seal)
        )

    async def list_checkpoints(self, request: pb.ListCheckpointsRequest, _: Context) -> pb.ListCheckpointsResponse:
        checkpoints = await self._control(self._backend.list_checkpoints, request.task)
        return pb.ListCheckpointsResponse(checkpoints=map(messages.checkpoint_message, checkpoints))

    async def next(self, request: pb.NextRequest, _: Context) -> bytes:
        with self._streams.one(acts_for()):
            frames = await self._waiting.frames(
                request.task,
                messages.cursor_value(getattr(request, "from")),
                acknowledge=messages.cursor_value(request.acknowledge) if request.HasField("acknowledge") else None,
                max_bytes=answer_bytes(request),
                wait=min(request.wait_ms / 1000, LONGEST_WAIT),
            )
        return encode_frames(joined(frames))

    async def results(self, request: pb.ResultsRequest, _: Context) -> AsyncGenerator[bytes]:
        encoder = FramesEncoder()
        with self._streams.one(acts_for()):
            async with aclosing(results(self._waiting, request)) as answers:
                async for frames in answers:
                    yield encoder.encode(frames)

    async def acknowledge(self, request: pb.AcknowledgeRequest, _: Context) -> pb.AcknowledgeResponse:
        await self._control(self._backend.acknowledge, request.task, messages.cursor_value(request.cursor))
        return pb.AcknowledgeResponse()

    async def get_task(self, request: pb.GetTaskRequest, _: Context) -> pb.Task:
        return messages.task_message(await self._control(self._backend.get_task, request.task))

    async def list_tasks(self, request: pb.ListTasksRequest, _: Context) -> bytes:
        return await self._control(self._list, request.after)

    def _list(self, after: str) -> bytes:
        tasks = iter(self._backend.list_tasks())
        if after and not any(task.id == after for task in tasks):
            raise NotFound(f"there is no task {after!r} any more: list the tasks from the start", reason="UNKNOWN_TASK")
        return messages.tasks_message(tasks).SerializeToString()

    async def watch_task(self, request: pb.WatchTaskRequest, _: Context) -> AsyncGenerator[pb.Task]:
        principal = acts_for()
        seen: TaskInfo | None = None
        with self._streams.one(principal):
            self._watches[principal] += 1
            try:
                while True:
                    task = await self._control(self._backend.get_task, request.task)
                    if task != seen:
                        yield messages.task_message(task)
                    if not task.runs:
                        return
                    seen = task
                    await self._waiting.pause(interval(request.interval_ms / 1000, self._watches[principal]))
            finally:
                self._watches[principal] -= 1

    async def cancel_task(self, request: pb.CancelTaskRequest, _: Context) -> pb.CancelTaskResponse:
        await self._control(self._backend.cancel_task, request.task)
        return pb.CancelTaskResponse()

    async def recover_task(self, request: pb.RecoverTaskRequest, _: Context) -> pb.RecoverTaskResponse:
        skip = [(split.source, split.sequence) for split in request.skip]
        info = await called(self._pools.planning, self._backend.recover_task, request.task, skip, request.request)
        return pb.RecoverTaskResponse(task=messages.task_message(info))

    async def delete_task(self, request: pb.DeleteTaskRequest, _: Context) -> pb.DeleteTaskResponse:
        readers = request.reader or request.readers
        reader = Reader(request.reader, request.readers) if readers else None
        await self._control(self._backend.delete_task, request.task, reader)
        return pb.DeleteTaskResponse()


def interval(asked: float, watches: int) -> float:
    """The seconds between two looks of a `WatchTask`, if its principal has so many of them."""
    return max(asked, SHORTEST_INTERVAL, watches / MOST_LOOKS)


class _Epoch:
    """The answer to a call that adds and reads: the added splits, and the frames that there are then."""

    def __init__(self, backend: Backend, request: pb.AddSplitsRequest, unread: UnreadAnswers) -> None:
        read = request.read
        self._backend = backend
        self._unread = unread
        self._task = request.task
        self._cursor = messages.cursor_value(getattr(read, "from"))
        self._acknowledge = messages.cursor_value(read.acknowledge) if read.HasField("acknowledge") else None
        self._bytes = answer_bytes(read)
        self._added: pb.AddSplitsResponse | None = None

    def check(self) -> None:
        """Raise if the frames cannot be read, before anything is added: a call that is refused changes nothing."""
        self._backend.check_read(self._task, self._cursor, acknowledge=self._acknowledge)

    def work_and_poll(self, added: pb.AddSplitsResponse) -> bytes:
        self._added = added
        return self._answer(added, self._backend.work_and_poll)

    def poll(self, added: pb.AddSplitsResponse) -> bytes:
        return self._answer(added, self._backend.poll)

    def so_far(self) -> bytes | None:
        """The answer while `work_and_poll` goes on; None while splits are still being added."""
        return None if self._added is None else self.poll(self._added)

    def _answer(self, added: pb.AddSplitsResponse, read: Callable[..., Sequence[Frame]]) -> bytes:
        max_bytes = self._unread.room(self._bytes)
        frames = read(self._task, self._cursor, acknowledge=self._acknowledge, max_bytes=max_bytes)
        return encode_added(added, joined(frames))


def _add_request(request: pb.AddSplitsRequest, splits: Iterable[tuple[str, Split, int | None]]) -> AddRequest:
    return AddRequest(
        splits=splits,
        epoch=request.epoch if request.HasField("epoch") else None,
        seal=messages.seal_value(request.barrier) if request.HasField("barrier") else None,
    )
