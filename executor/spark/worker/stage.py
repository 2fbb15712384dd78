"""What of a task travels to the processes that run its channels: a pipeline as a value, and an epoch's pieces.

A stage is made once for each shape and pipeline, and known by its `key`, so that a process that has run it before has
its operators, instances and prepared statements. All of it is Spark's to carry, between the service and the executors
that Spark has started, in its own serialization.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from ....operators.core.piece import Piece
from ....operators.duckdb.instances import InstanceSettings
from ....operators.indexes.sql import Database
from ....planner.physical.pipelines import Exchange, Pipeline
from ....proto.dataset import Keyed
from ....proto.values import TaskOptions
from ...pipelines.build_operators import RunNode, Watched
from ...pipelines.key_shares import CutPieces
from ...pipelines.pipeline import Pieces

Turns: TypeAlias = Sequence[Pieces]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Received:
    """An exchange, and how many channels feed it."""

    exchange: Exchange
    producers: int


@dataclass(frozen=True, slots=True)
class KeptAs:
    """In files of a Dataset, `keyed` so."""

    keyed: Keyed | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """`number` is the pipeline's place in its plan, `name` what statistics call it, `memory` what each of its instances
    has. `places` are those of the exchanges it feeds, `tables` what it may open indexes over, `kept` and `indexes` the
    files of what it reads.
    """

    number: int
    name: str
    pipeline: Pipeline
    memory: int
    options: TaskOptions
    settings: InstanceSettings
    received: tuple[Received, ...]
    places: Mapping[int, str]
    tables: Mapping[str, Sequence[Piece]]
    databases: Mapping[str, Database]
    kept: Mapping[str, str]
    indexes: Mapping[str, tuple[str, tuple[int, ...]]]
    exchanges: int
    """Those of the whole plan, which share the memory for what waits."""
    watched: Watched
    dataset: KeptAs | None = None
    """How its rows are kept, if they are a Dataset's."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """A channel's part of an epoch: the pieces of each of its turns, and those in its ranges of keys."""

    turns: Turns
    cut: CutPieces


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """A stage in one epoch, in the task's job number `run`. `given` is one `Given` for each channel, as bytes; `folder`
    is for what is written. `in_morsels`: the result is the rows of each turn, and not of each channel.
    """

    run: int
    epoch: int
    clock_us: int
    folder: str
    whole: Mapping[str, Sequence[Piece]]
    given: tuple[bytes, ...]
    in_morsels: bool


@dataclass(frozen=True)
class Shipped:
    """A stage as bytes."""

    stage: Stage

    @cached_property
    def payload(self) -> bytes:
        return packed(self.stage)

    @cached_property
    def key(self) -> str:
        return hashlib.sha256(self.payload).hexdigest()


def unwatched(node: RunNode, channel: int, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:  # noqa: ARG001
    """How far a channel has come is not told while it runs."""
    return rows


def packed(value: object) -> bytes:
    """In Spark's own serialization, which knows functions that are defined anywhere."""
    from pyspark import cloudpickle

    return bytes(cloudpickle.dumps(value))


def unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301 - made by `packed` in the service, and carried by Spark
