"""Your operators for plans: given to a service by its owner, and named by plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa

from .partitions import UNSAID, PartitionLike, Unsaid, check_streams, partition_of
from .proto.errors import InvalidRequest
from .proto.graph import ONLY_STREAM, Executor, Partition
from .proto.operator_registration import Options, UserOperator

Partitioning: TypeAlias = PartitionLike | Mapping[str, PartitionLike]

_SEVERAL: Final = 2
"""The least number of channels for which a stream needs a partition."""


def user_operator(
    make: Callable[[Options], Executor],
    *,
    schema: pa.Schema | Callable[[Options, Sequence[pa.Schema]], pa.Schema] | None = None,
    streams: Sequence[str] = (ONLY_STREAM,),
    partition: Partitioning | Callable[[Options], Partitioning] | Unsaid = UNSAID,
    after: Mapping[str, str | Sequence[str]] | None = None,
    version: str = "",
) -> UserOperator:
    """An operator for `tidegate.local(operators={name: ...})` or `tidegate serve --operators`.

    >>> OPERATORS = {"count": tidegate.user_operator(lambda options: Count(), schema=pa.schema({"rows": pa.int64()}))}
    >>> client = tidegate.local(operators=OPERATORS)

    - `make`: `make(options)` gives an executor, as for a node of a `TaskGraph`: a new one for each channel and epoch
    - `schema`: the schema of its rows, or a function of the options and the streams' schemas that gives it; if not
      given, the schema of its only stream
    - `partition`: which channels get which rows: a column or several (called c0, c1, ...), None (all rows to all) or
      `tidegate.SPREAD`, for all streams or by their names; or a function of the options that gives one of these
    - `after`: `{"probe": "build"}` reads a stream once others have ended
    - `version`: change it with the code: a checkpoint of a plan with another version is then refused, and readers of a
      durable task are told to read its epoch from row 0

    Without a `partition` the operator runs on one channel. With one it has as many channels as the task, if that pays.
    """
    names = tuple(streams)
    if not callable(make):
        raise InvalidRequest(
            f"{make!r} cannot make executors: give a function that takes the options", reason="NOT_A_FACTORY"
        )
    if not names or len(set(names)) < len(names):
        raise InvalidRequest(f"an operator's streams must have different names, not {names!r}", reason="DUPLICATE_NAME")
    waits = {} if after is None else after
    check_streams("operator", "after", waits, names)
    for others in waits.values():
        check_streams("operator", "after", dict.fromkeys(_several(others)), names)

    def partitions(options: Options) -> Mapping[str, Partition]:
        return _partitions(names, _given(partition, options))

    said = not isinstance(partition, Unsaid)
    if said and not callable(partition):
        _partitions(names, partition)  # refuse wrong arguments now
    return UserOperator(
        make=make,
        schema=schema,
        streams=names,
        partitions=partitions if said else None,
        after={name: _several(others) for name, others in waits.items()},
        version=version,
    )


def _given(partition: Any, options: Options) -> Any:
    return partition(options) if callable(partition) else partition


def _partitions(names: Sequence[str], partitions: Any) -> Mapping[str, Partition]:
    if not isinstance(partitions, Mapping):
        return {name: partition_of("operator", name, partitions, _SEVERAL) for name in names}
    check_streams("operator", "partition", partitions, names)
    return {name: partition_of("operator", name, partitions.get(name, UNSAID), _SEVERAL) for name in names}


def _several(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
