"""Routing: the division of a block's rows among channels.

A block becomes one slice for each channel, empty slices included; in a slice rows keep the block's order. The route of
a row depends on the block's rows, its producer and its number, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...operators.arrays.hashing import MAX_CHANNELS, channel_of, hash_columns, hashable
from ...operators.core.wide_rows import taken
from ...operators.user.user_code import UserCode
from ...proto.errors import ExecutionError
from ...proto.graph import Choose

Slices: TypeAlias = tuple[pa.RecordBatch, ...]


class Routing(Protocol):
    by_row: ClassVar[bool]
    """True if a row's route depends on the row, its producer and the block's number alone."""

    @property
    def channels(self) -> int: ...

    def slices(self, block: pa.RecordBatch, producer: int, number: int) -> Slices:
        """One slice for each channel of block `number` (from 0) of this producer's stream."""
        ...


class HashRouting:
    """Routing by key hash: rows with equal keys go to one channel, from any producer. `keys` are positions of columns,
    in order.
    """

    by_row: ClassVar[bool] = True

    def __init__(self, schema: pa.Schema, keys: tuple[int, ...], channels: int) -> None:
        _check(channels)
        if not keys:
            raise ValueError("hash routing needs at least one key column")
        for key in keys:
            field = schema.field(key)
            if not hashable(field.type):
                raise ExecutionError(
                    f"column {field.name!r} of type {field.type} cannot be a hash key", reason="UNSUPPORTED_TYPE"
                )
        self.keys = keys
        self.channels = channels

    def slices(self, block: pa.RecordBatch, producer: int, number: int) -> Slices:  # noqa: ARG002 - not by place
        if self.channels == 1:
            return (block,)
        return _dealt(
            block, channel_of(hash_columns([block.column(key) for key in self.keys]), self.channels), self.channels
        )


class FunctionRouting:
    """Routing by user code: a function says where each row goes. Errors name the node, and the producer: the channel
    that gave the rows.
    """

    by_row: ClassVar[bool] = False

    def __init__(self, schema: pa.Schema, choose: Choose, channels: int, node: str) -> None:
        _check(channels)
        self.channels = channels
        self._choose = choose
        self._node = node
        self._schema = schema

    def slices(self, block: pa.RecordBatch, producer: int, number: int) -> Slices:  # noqa: ARG002 - not by number
        code = UserCode(self._node, self._schema, producer)
        numbers = code.call("its partition function", self._choose, block, self.channels)
        return _dealt(block, self._checked(numbers, block.num_rows, code), self.channels)

    def _checked(self, numbers: object, rows: int, code: UserCode) -> npt.NDArray[np.uint8 | np.uint16]:
        """The channels that the function returned. Raises unless there is one for each row."""
        if isinstance(numbers, pa.Array | pa.ChunkedArray) and numbers.null_count:
            raise self._wrong(code, f"gave {numbers.null_count} nulls for {rows} rows")
        try:
            channel = np.asarray(numbers)
        except (TypeError, ValueError) as error:
            raise self._wrong(code, f"gave {type(numbers).__name__}") from error
        if channel.shape != (rows,) or channel.dtype.kind not in "iu":
            raise self._wrong(code, f"gave {channel.dtype} of shape {channel.shape} for {rows} rows")
        if rows and (channel.min() < 0 or channel.max() >= self.channels):
            raise self._wrong(code, f"gave channels from {channel.min()} to {channel.max()}")
        return channel.astype(np.uint8 if self.channels <= 1 << 8 else np.uint16)

    def _wrong(self, code: UserCode, what: str) -> ExecutionError:
        right = f"the function must give a whole number from 0 to {self.channels - 1} for each row"
        return code.wrong(f"its partition function {what}; {right}", "BAD_CHANNEL")


@dataclass(frozen=True, slots=True)
class Forward:
    """Routing of a producer's rows to the channel of the producer's number."""

    channels: int
    by_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.channels)

    def slices(self, block: pa.RecordBatch, producer: int, number: int) -> Slices:  # noqa: ARG002 - not by number
        return tuple(block if channel == producer else block.slice(0, 0) for channel in range(self.channels))


@dataclass(frozen=True, slots=True)
class RoundRobinBlocks:
    """Routing of one block after the other to one channel after the other. Producers begin at different channels."""

    channels: int
    by_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.channels)

    def slices(self, block: pa.RecordBatch, producer: int, number: int) -> Slices:
        turn = (producer + number) % self.channels
        return tuple(block if channel == turn else block.slice(0, 0) for channel in range(self.channels))


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Routing of every block to every channel; with one channel, the gather."""

    channels: int
    by_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check(self.channels)

    def slices(self, block: pa.RecordBatch, producer: int, number: int) -> Slices:  # noqa: ARG002 - not by place
        return (block,) * self.channels


def _dealt(block: pa.RecordBatch, channel: npt.NDArray[np.uint8 | np.uint16], channels: int) -> Slices:
    """Each channel's rows, in their order."""
    order = np.argsort(channel, kind="stable")  # of one or two bytes: a radix sort
    counts = np.bincount(channel, minlength=channels).tolist()
    dealt = taken(block, pa.array(order))
    return tuple(dealt.slice(end - count, count) for count, end in zip(counts, accumulate(counts), strict=True))


def _check(channels: int) -> None:
    if not 0 < channels <= MAX_CHANNELS:
        raise ValueError(f"{channels} channels are not possible: there can be 1 to {MAX_CHANNELS}")
