"""A loader's arguments by name, and checks of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, Required

import pyarrow as pa
from pyarrow import types as kinds

from ..proto.errors import InvalidRequest
from ..task_options import SharedOptions
from .order.shuffle import Shuffle

if TYPE_CHECKING:
    from ..splits import SplitLike
    from .batch_columns import Arrays
    from .order.shards import Grid
    from .packing import Pack


UNSHUFFLED_ROWS: Final = 262_144
"""The rows that stand for a window where rows are not shuffled."""


class LoaderArguments(SharedOptions, total=False):
    """The arguments of a `Loader` that a data set of PyTorch passes on."""

    batch_size: Required[int]
    epochs: int | None
    shuffle: Shuffle | None
    rank: int
    ranks: int
    shards: int
    turns: int
    drop_last: bool
    pad: bool
    columns: Sequence[str] | None
    shapes: Mapping[str, Sequence[int]] | None
    as_: Arrays
    weight: str | None
    pack: Pack | None
    provenance: bool
    prefetch: int | None
    prefetch_bytes: int
    readers: int
    tables: Mapping[str, SplitLike | Sequence[SplitLike]] | None
    on_error: Literal["fail", "skip"]
    progress: bool


def check_numbers(least: int = 1, /, **numbers: int) -> None:
    for name, value in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise InvalidRequest(f"{name} must be a whole number from {least} on, not {value!r}")


def check_shares(batch_size: int, *, rank: int, ranks: int, shards: int, turns: int, worker: int, workers: int) -> None:
    """Raise `InvalidRequest` unless the shares of batches are whole numbers that fit together."""
    check_numbers(batch_size=batch_size, ranks=ranks, shards=shards, turns=turns, workers=workers)
    _check_among("rank", rank, ranks)
    _check_among("worker", worker, workers)


def check_ahead(*, epochs: int | None, readers: int, prefetch: int | None, prefetch_bytes: int) -> None:
    """Raise `InvalidRequest` unless the numbers of what is read, now and ahead, are whole numbers."""
    check_numbers(readers=readers, prefetch_bytes=prefetch_bytes, epochs=1 if epochs is None else epochs)
    check_numbers(0, prefetch=0 if prefetch is None else prefetch)


def window_batches(shuffle: Shuffle | None, batch_size: int) -> int:
    """As many batches as a window has, about."""
    return -(-(UNSHUFFLED_ROWS if shuffle is None else max(shuffle.rows, 1)) // batch_size)


def ahead_batches(shuffle: Shuffle | None, batch_size: int, readers: int) -> int:
    """The batches to have ahead: each reader builds a window while one is taken."""
    return max(2, (readers + 1) * window_batches(shuffle, batch_size))


def check_columns(columns: Sequence[str] | None) -> None:
    if columns is not None and (isinstance(columns, str) or not columns):
        raise InvalidRequest(f"columns must be a list with the name of at least one column, not {columns!r}")


def check_shuffle(shuffle: object) -> None:
    if not (shuffle is None or isinstance(shuffle, Shuffle)):
        raise InvalidRequest(
            f"shuffle must be a tidegate.training.Shuffle, as in shuffle=Shuffle(seed=7), or None, not {shuffle!r}"
        )


def _check_among(name: str, value: int, count: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < count:
        raise InvalidRequest(f"{name} must be a whole number from 0 to {name}s - 1 = {count - 1}, not {value!r}")


def check_packed(
    pack: Pack | None, columns: Sequence[str] | None, shapes: Mapping[str, Sequence[int]] | None, *, provenance: bool
) -> None:
    if pack is not None and (columns is not None or shapes or provenance):
        raise InvalidRequest("a packed row has tokens of several rows: leave columns, shapes and provenance out")


def check_choices(*, as_: str, pin_memory: bool, drop_last: bool, pad: bool, on_error: str) -> None:
    if pin_memory and as_ != "torch":
        raise InvalidRequest(f"only tensors of PyTorch can be pinned: give as_='torch', not {as_!r}, or no pin_memory")
    if drop_last and pad:
        raise InvalidRequest("drop_last and pad are two answers to one question: give one of them")
    if on_error not in ("fail", "skip"):
        raise InvalidRequest(f"on_error must be fail or skip, not {on_error!r}", reason="UNKNOWN_OPTION")


def check_weight(weight: str | None, schema: pa.Schema) -> None:
    """Raise `InvalidRequest` unless the result has numbers in the column by which rows are weighed."""
    if weight is None:
        return
    if weight not in schema.names:
        raise InvalidRequest(
            f"the result has no column {weight} to weigh rows by; it has {', '.join(schema.names)}",
            reason="NO_SUCH_COLUMN",
        )
    type_ = schema.types[schema.names.index(weight)]
    if not any(is_kind(type_) for is_kind in (kinds.is_integer, kinds.is_floating, kinds.is_decimal, kinds.is_boolean)):
        raise InvalidRequest(f"column {weight!r} has no numbers to weigh rows by: {type_}", reason="BAD_WEIGHTS")


def check_options(options: Mapping[str, object]) -> None:
    fixed = sorted({"mode", "determinism"} & set(options))
    if fixed:
        raise InvalidRequest(
            f"a loader's task is strict and per epoch, since its order must repeat: leave {', '.join(fixed)} out",
            reason="LOADER_OPTION",
        )


def check_shards(batch_size: int, grid: Grid, **without: bool) -> None:
    """Shards are cut at rows that are known beforehand, and each gives as many rows to a batch."""
    if batch_size % grid.shards:
        raise InvalidRequest(
            f"batch_size={batch_size} must be a multiple of shards={grid.shards}: each gives as many rows"
        )
    unknown = [name for name, is_given in without.items() if is_given]
    if unknown:
        names = {"weight": "weight", "pack": "pack", "skips": "on_error='skip'"}
        asked = f"shards={grid.shards}" if grid.shards > 1 else f"turns={grid.turns}"
        raise InvalidRequest(
            f"{asked} needs the number of rows of each split beforehand, which nobody knows with "
            f"{', '.join(names[name] for name in unknown)}: leave one of them out"
        )
