"""The parts of a task that travel to the processes of its channels: a pipeline as a value, and an epoch's pieces.

A stage is made once for each shape and pipeline, and known by its `key`. A process that has run the stage before finds
its operators, instances and prepared statements again. Everything travels through Spark, between the service and the
executors that Spark has started, in Spark's own serialization.
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
from ....operators.writing.part_writer import WriteTarget
from ....planner.physical.pipelines import Exchange, Pipeline
from ....proto.dataset import Keyed
from ....proto.values import TaskOptions
from ...pipelines.build_operators import RunNode, Watched
from ...pipelines.key_shares import CutPieces
from ...pipelines.pipeline import Pieces, Sent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Received:
    """An exchange, and the number of channels that feed it."""

    exchange: Exchange
    producers: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fed:
    """Rows of a DataFrame that come to the channels of a stage as parcels, numbered like those of an exchange.

    Each channel gets a share of the rows, or all rows if `whole`. `schema` has the columns of the rows.
    """

    number: int
    source: str
    whole: bool
    schema: pa.Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOn:
    """The effect of rows that Spark gets, with these columns."""

    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class KeptAs:
    """The form of rows that are kept as a Dataset: the key of its files, if any."""

    keyed: Keyed | None


TurnEffect: TypeAlias = "KeptAs | HandedOn | WriteTarget | None"
"""The effect of a result's rows. None: they are in a file, which the service reads."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stage:
    """A pipeline with all that its channels need in every epoch.

    - `number`: the pipeline's position in its plan
    - `name`: its name in statistics
    - `memory`: the memory of each of its instances
    - `plan_paths`: those of the exchanges that it feeds
    - `tables`: the tables over which it may open indexes
    - `kept`, `indexes`: the files of the kept rows and indexes that it reads
    - `sent`: the sources of rows that its pipeline does not read itself
    """

    number: int
    name: str
    pipeline: Pipeline
    memory: int
    options: TaskOptions
    settings: InstanceSettings
    received: tuple[Received, ...]
    fed: tuple[Fed, ...]
    plan_paths: Mapping[int, str]
    tables: Mapping[str, Sequence[Piece]]
    databases: Mapping[str, Database]
    kept: Mapping[str, str]
    indexes: Mapping[str, tuple[str, tuple[int, ...]]]
    exchanges: int
    """The number of exchanges in the whole plan, which share the memory for waiting rows."""
    watched: Watched
    sent: Sent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Given:
    """A channel's part of an epoch: its share of the pieces, and those in its ranges of keys."""

    pieces: Pieces
    cut: CutPieces


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """A stage in one epoch, in the task's job number `run`.

    `channel_inputs` has one `Given` for each channel, as bytes; `folder` is for written files, if there is one.
    """

    run: int
    epoch: int
    clock_us: int
    folder: str | None
    whole: Mapping[str, Sequence[Piece]]
    channel_inputs: tuple[bytes, ...]
    effect: TurnEffect


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
    """The rows unchanged: the progress of a running channel is not reported."""
    return rows


def packed(value: object) -> bytes:
    """The value in Spark's own serialization, which also carries functions that are defined anywhere."""
    from pyspark import cloudpickle

    return bytes(cloudpickle.dumps(value))


def unpacked(payload: bytes) -> Any:
    return pickle.loads(payload)  # noqa: S301 - made by `packed` in the service, and carried by Spark
