"""Pipelines as one Spark job: a stage for each pipeline, a shuffle for its input, and a row for each result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...planner.ir import Routing
from ...planner.physical.pipelines import Exchange
from .applications.connect_server import is_gone
from .worker import ranges, worker
from .worker.fed_rows import SendRows
from .worker.parcels import BEFORE_EXCHANGES, COLUMNS, Kind
from .worker.stage import Fed, Shipped, packed, unpacked

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SETTINGS: Final = {
    "spark.sql.adaptive.enabled": "false",  # the number of a stage's tasks is the number of its channels, never a guess
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",  # of rows that hold a block each
    # Parcels tell times and names of files, too, so that those of a second attempt differ although its rows do not. By
    # their checksums Spark would take the rows for other ones, and fail a job that has some of its results.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableQueryLevelRollbackOnMismatch": "false",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}

_Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A stage and its part of an epoch."""

    shipped: Shipped
    turn: bytes


class Job:
    """A job of steps, each after the steps that it receives from. `ended` hears of channels that have ended.

    `frames` are the DataFrames that feed sources. With `columns`, the rows of the result are the job's own rows, of
    these columns; they are computed when somebody asks for them.
    """

    def __init__(
        self,
        spark: SparkSession,
        steps: Sequence[Step],
        ended: Accumulator[Any] | None = None,
        *,
        frames: Mapping[str, DataFrame] | None = None,
        columns: StructType | None = None,
    ) -> None:
        self._spark = spark
        self._ended = ended
        self._frames = frames or {}
        self._columns = columns
        self._rows: dict[int, DataFrame] = {}
        self._several: dict[int, bool] = {}
        self._kept: list[DataFrame] = []
        readers = {inlet.exchange.number: step for step in steps for inlet in step.shipped.stage.received}
        results = [frame for step in steps if (frame := self._add(step, readers)) is not None]
        self.result = reduce(lambda one, two: one.union(two), results)

    def run(self) -> list[bytes]:
        """Run the job; the messages of the results' channels, in no order."""
        try:
            messages = [bytes(row[0]) for row in self.result.select("payload").collect()]
        except Exception as error:
            if not is_gone(error):  # else there is nothing to free, and the call would wait for a server
                self._free()
            raise
        self._free()
        return messages

    def _free(self) -> None:
        for frame in self._kept:
            frame.unpersist()

    def _add(self, step: Step, readers: dict[int, Step]) -> DataFrame | None:
        """Add a stage; its rows, if they are the result's."""
        stage = step.shipped.stage
        into = stage.pipeline.into
        columns = COLUMNS if into or self._columns is None else self._columns
        frame = self._input(step).mapInArrow(_task(step, self._ended), columns)
        if not into:
            return frame
        several = len({id(readers[exchange.number]) for exchange in into if exchange.number in readers}) > 1
        if several and self._columns is None:
            from pyspark import StorageLevel

            frame = frame.persist(StorageLevel.DISK_ONLY)
            self._kept.append(frame)
        for exchange in into:
            self._rows[exchange.number] = frame
            self._several[exchange.number] = several
            if exchange.routing is Routing.RANGE:
                self._rows[exchange.number] = self._cut(exchange, stage.pipeline.channels)
                self._several[exchange.number] = False
        return None

    def _cut(self, exchange: Exchange, tasks: int) -> DataFrame:
        """The parcels of an exchange, cut into ranges by so many tasks."""
        [parcels] = self._of([exchange])
        return _in_order(parcels, tasks).mapInArrow(_cutting(exchange), COLUMNS)

    def _input(self, step: Step) -> DataFrame:
        stage = step.shipped.stage
        channels = stage.pipeline.channels
        received = [inlet.exchange for inlet in stage.received]
        numbers = self._spark.range(0, channels, 1, channels)
        if not received and not stage.fed:
            return numbers
        parcels = self._of(received)
        if stage.fed:  # a channel may get no rows
            parcels += [numbers.selectExpr(*_NUMBERED), *(self._fed(fed, channels) for fed in stage.fed)]
        return _in_order(reduce(lambda one, two: one.union(two), parcels), channels)

    def _fed(self, fed: Fed, channels: int) -> DataFrame:
        rows = self._frames[fed.source]
        return rows.mapInArrow(SendRows(fed, channels), COLUMNS)

    def _of(self, received: Sequence[Exchange]) -> list[DataFrame]:
        """The data frames that feed these exchanges.

        A stage that feeds other exchanges too gives these exchanges' parcels alone.
        """
        frames: dict[int, tuple[DataFrame, list[int]]] = {}
        for exchange in received:
            frame = self._rows[exchange.number]
            frames.setdefault(id(frame), (frame, []))[1].append(exchange.number)
        return [
            frame.where(frame["exchange"].isin(numbers)) if self._several[numbers[0]] else frame
            for frame, numbers in frames.values()
        ]


_NUMBERED: Final = (
    "cast(id AS int) AS channel",
    f"cast({BEFORE_EXCHANGES} AS int) AS exchange",
    "cast(0 AS bigint) AS first",
    "cast(0 AS bigint) AS second",
    f"cast({int(Kind.REPORT)} AS int) AS kind",
    "cast('' AS binary) AS payload",
)


def _in_order(parcels: DataFrame, tasks: int) -> DataFrame:
    """The parcels of each of so many tasks, in the order in which it reads them."""
    return parcels.repartitionById(tasks, "channel").sortWithinPartitions("exchange", "first", "second", "kind")


def _cutting(exchange: Exchange) -> _Task:
    payload = packed(exchange)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return ranges.cut(unpacked(payload), batches)

    return run


def _task(step: Step, ended: Accumulator[Any] | None) -> _Task:
    key, payload, turn = step.shipped.key, step.shipped.payload, step.turn

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return worker.work(key, payload, turn, ended, batches)

    return run
