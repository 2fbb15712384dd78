"""A node of a graph: an executor of user code, driven epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa

from ...proto.graph import STRIDE, Executor
from ..core.blocks import blocks
from ..core.operator import Operator, Stream
from .user_code import UserCode


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStream:
    """A stream of a node. The executor gets it in batches of `stride` rows, once the streams `after` have ended."""

    name: str
    after: tuple[str, ...] = ()
    stride: int = STRIDE


class User(Operator):
    """The operator that hands its inputs to an executor of user code, and yields the executor's rows.

    Order: a batch of each stream in turn, in their order; a stream that waits for others, or has ended, is passed over.
    Rows come as the executor gives them. Nulls: the executor decides. Empty input: `done` alone is called. Memory: a
    batch of each stream, beside the executor's own. Barrier: `done` is called when all streams have ended or the
    executor wants no more of them; then the executor is dropped, and the next epoch has a new one.

    With `recut` every stream comes in batches of exactly its stride, the last one short, so that the executor sees the
    same calls whatever made the rows. Otherwise batches come as they are, without empty ones. An executor whose output
    is closed early is dropped without a call of `done`.
    """

    def __init__(
        self,
        name: str,
        streams: Sequence[UserStream],
        *,
        schema: pa.Schema,
        make: Callable[[], Executor],
        channel: int = 0,
        recut: bool = True,
    ) -> None:
        self.schema = schema
        self._streams = tuple(streams)
        self._make = make
        self._channel = channel
        self._recut = recut
        self._code = UserCode(name, schema, channel)
        self._plan_path = f"node {name!r}"

    def run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        self._interrupted = False
        return self._run(inputs)

    def _run(self, inputs: Sequence[Stream]) -> Iterator[pa.RecordBatch]:
        code, channel = self._code, self._channel
        with ExitStack() as stack:
            for input_ in inputs:
                stack.callback(input_.close)
            executor = self._made()
            finished = getattr(executor, "finished", None)
            reading = {
                stream.name: self._batches(stream, input_) for stream, input_ in zip(self._streams, inputs, strict=True)
            }
            closing = {stream.name: input_.close for stream, input_ in zip(self._streams, inputs, strict=True)}
            doing = {stream.name: f"execute on stream {stream.name!r}" for stream in self._streams}
            while reading:
                for stream in self._streams:
                    name = stream.name
                    if name not in reading or not reading.keys().isdisjoint(stream.after):
                        continue
                    self._stop_if_interrupted()
                    if finished is not None and code.call(f"finished on stream {name!r}", finished, name, channel):
                        del reading[name]
                        closing[name]()
                        continue
                    batch = next(reading[name], None)
                    if batch is None:
                        del reading[name]
                        continue
                    yield from code.batches(doing[name], executor.execute, [batch], name, channel)
            yield from code.batches("done", executor.done, channel)

    def _made(self) -> Executor:
        executor = self._code.call("making its executor", self._make)
        for method in ("execute", "done"):
            if not callable(getattr(executor, method, None)):
                raise self._code.wrong(
                    f"its executor, a {type(executor).__name__}, has no method {method}: an executor needs "
                    "execute(batches, stream, channel) and done(channel)",
                    "NOT_AN_EXECUTOR",
                )
        return executor

    def _batches(self, stream: UserStream, input_: Stream) -> Iterator[pa.RecordBatch]:
        return blocks(input_, stream.stride) if self._recut else (batch for batch in input_ if batch.num_rows)
