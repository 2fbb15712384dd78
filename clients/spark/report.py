"""The report of a feed, as values with a sentence: the way that was taken and why, and the guarantee of the order."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Way(enum.Enum):
    """The way of rows from Spark to a task.

    - `REFERENCE`: the files that Spark would read are named, and Tidegate reads them.
    - `STAGED`: the executors write the rows once as Parquet files, which are named.
    - `PUSHED`: the executors send the rows to the service.

    >>> fed = tidegate.spark.feed(data_frame, task, "sales", how="reference")
    >>> fed.way
    <Way.REFERENCE: 'reference'>
    """

    REFERENCE = "reference"
    STAGED = "staged"
    PUSHED = "pushed"


class Order(enum.Enum):
    """The guarantee that the same DataFrame, fed again, gives the same rows in the same order.

    - `FILES`: the order is that of the files, by path and position.
    - `SORTED`: the order is that of `order_by`.
    - `SPARK`: every partition depends only on its own files or rows.
    - `NOBODY`: Spark may compute the rows in another order next time.

    In every case, rows that have been fed keep their order.

    >>> fed = tidegate.spark.feed(data_frame, task, "sales", order_by=["amount"])
    >>> fed.order
    <Order.SORTED: 'sorted'>
    """

    FILES = "files"
    SORTED = "sorted"
    SPARK = "spark"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Bytes:
    """For `epoch_by`: splits of about so many bytes, as they are stored, make an epoch.

    >>> fed = tidegate.spark.feed(data_frame, task, "sales", epoch_by=tidegate.spark.Bytes(1 << 30))
    >>> fed.epochs
    (1,)
    """

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fed:
    """The report of `feed`.

    `epochs` are those that it sealed; `epoch` is that of the last split, or None without splits.

    `rows` is None if nobody has counted them. `transaction` names the staged files or pushed uploads. `replayed` is the
    number of its epochs that the task had before (1 for the whole feed, if the caller seals).

    >>> fed = tidegate.spark.feed(data_frame, task, "sales")
    >>> fed.splits, fed.way, fed.order
    (1, <Way.REFERENCE: 'reference'>, <Order.FILES: 'files'>)
    """

    way: Way
    why: str
    order: Order
    order_why: str
    splits: int
    rows: int | None
    epochs: tuple[int, ...]
    epoch: int | None
    transaction: str | None
    replayed: int = 0

    def __str__(self) -> str:
        sealed = f", sealed as epochs {self.epochs[0]} to {self.epochs[-1]}" if self.epochs else ""
        rows = "" if self.rows is None else f" of {self.rows:,} rows"
        return (
            f"{self.splits} splits{rows} by the way {self.way.value!r}{sealed}: {self.why}. "
            f"Order: {self.order.value}: {self.order_why}."
        )
