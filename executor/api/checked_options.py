"""Checks a task's options when the task is made, with a message for each option."""

from __future__ import annotations

import zoneinfo
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Final

from ...operators.writing.formats import WRITE_FORMATS
from ...proto.encoding.number_ranges import MOST_CHANNELS, MOST_LOCAL_CHANNELS, RANGES, check_number
from ...proto.errors import InvalidRequest
from ...proto.values import Determinism, ExecutorKind, Mode, Spill, TaskOptions

SMALLEST_MEMORY = 32 << 20
"""The least memory limit for each channel."""
ADOPTED: Final = "session "
"""Begins the name that a service has for a Spark session of its caller, in the option `spark`."""
_SHIPPED: Final = TaskOptions()
NUMBERS: Final = tuple(field.name for field in fields(TaskOptions) if field.name in RANGES)


def check_options(options: TaskOptions) -> TaskOptions:
    """The options themselves. Raises `InvalidRequest`, which names the option that cannot be."""
    for name in NUMBERS:
        check_number(name, getattr(options, name))
    _check_channels(options)
    _check_executor(options)
    if options.mode is Mode.CONTINUOUS:
        _check_continuous(options)
    _check_memory(options)
    if options.write_format not in WRITE_FORMATS:
        raise InvalidRequest(
            f"write_format={options.write_format!r} must be one of {', '.join(WRITE_FORMATS)}", reason="UNKNOWN_FORMAT"
        )
    if options.retries and options.determinism is Determinism.RELAXED:
        raise InvalidRequest(
            f"retries={options.retries}: a channel that is made anew has to give the same rows again, and a relaxed "
            "task promises no order; leave retries out, or ask for a strict task",
            reason="STRICT_OPTION",
        )
    _check_time_zone(options.time_zone)
    return options


def with_channels(options: TaskOptions, cores: Callable[[], int], most: float | None = None) -> TaskOptions:
    """The options, with the most channels that the service may choose where it is to choose channels.

    `cores` counts the cores that there are; `most` is the service's own ceiling. Spark tasks with more channels than
    `memory_limit` could be divided among have it for each task slot.
    """
    on_spark = options.executor is ExecutorKind.SPARK
    if on_spark and not options.slot_memory and not 0 < options.channels <= MOST_LOCAL_CHANNELS:
        options = replace(options, slot_memory=options.memory_limit)
    if options.channels or options.determinism is Determinism.RELAXED:
        return replace(options, channels=options.channels or 1)
    known = options.auto_cores or max(1, cores())
    room = options.memory_limit // max(options.slot_memory, SMALLEST_MEMORY)
    largest = MOST_CHANNELS if on_spark else max(1, min(known, MOST_LOCAL_CHANNELS, room))
    largest = largest if most is None else max(1, min(largest, int(most)))
    by_epoch = options.mode is Mode.PER_EPOCH
    return replace(options, channels=largest, auto_cores=known if by_epoch else 0)


def check_rows(rows: Mapping[str, int]) -> Mapping[str, int]:
    """The numbers of sources' rows themselves. Raises `InvalidRequest` if one is wrong."""
    for source, count in rows.items():
        RANGES["rows"].check(f"rows[{source!r}]", count)
    return rows


def _check_channels(options: TaskOptions) -> None:
    if not options.channels:
        raise InvalidRequest(
            "channels=0 must have been replaced by a number of channels", reason="UNSUPPORTED_CHANNELS"
        )
    if options.channels > MOST_LOCAL_CHANNELS and options.executor is ExecutorKind.LOCAL:
        raise InvalidRequest(
            f"channels={options.channels}: a task of the service's own process may have {MOST_LOCAL_CHANNELS} at most; "
            f'executor="spark" allows {MOST_CHANNELS}',
            reason="UNSUPPORTED_CHANNELS",
        )
    if options.channels > 1 and options.determinism is Determinism.RELAXED:
        raise InvalidRequest(
            f"channels={options.channels}: a relaxed task runs one channel on every core; leave channels out, or ask "
            "for a strict task",
            reason="UNSUPPORTED_CHANNELS",
        )


def _check_memory(options: TaskOptions) -> None:
    if options.slot_memory:
        smallest = f"{SMALLEST_MEMORY} bytes (32 MiB)"
        if not SMALLEST_MEMORY <= options.slot_memory <= options.memory_limit:
            raise InvalidRequest(
                f"slot_memory={options.slot_memory} must be at least {smallest} and at most "
                f"memory_limit={options.memory_limit}; 0 divides memory_limit among the channels"
            )
        return
    least = SMALLEST_MEMORY * options.channels
    if options.memory_limit < least:
        raise InvalidRequest(
            f"memory_limit={options.memory_limit} must be at least {least} bytes (32 MiB for each channel)"
        )


def _check_executor(options: TaskOptions) -> None:
    if options.executor is ExecutorKind.LOCAL:
        if options.result_files:
            raise InvalidRequest(
                'result_files=True: only the channels of a task with executor="spark" write files of their own; leave '
                "result_files out, and read the rows from the service",
                reason="NOT_ON_SPARK",
            )
        if options.spark:
            raise InvalidRequest(
                'spark is given, but the task does not run on Spark: give executor="spark", or leave spark out',
                reason="NO_SPARK",
            )
        if options.spark_threshold_bytes != _SHIPPED.spark_threshold_bytes:
            raise InvalidRequest(
                f"spark_threshold_bytes={options.spark_threshold_bytes} is given, but the task does not run on Spark: "
                'give executor="spark", or leave spark_threshold_bytes out',
                reason="NO_SPARK",
            )
        return
    if options.mode is Mode.CONTINUOUS:
        raise InvalidRequest(
            'executor="spark" runs only tasks with mode="per_epoch": a continuous task keeps its state in the '
            "memory of its service; leave executor out",
            reason="NOT_ON_SPARK",
        )
    if options.retries:
        raise InvalidRequest(
            f'retries={options.retries}: with executor="spark" leave retries out: Spark runs the tasks of a lost '
            "process again, as often as its spark.task.maxFailures says",
            reason="NOT_ON_SPARK",
        )
    if options.determinism is Determinism.RELAXED:
        raise InvalidRequest(
            'executor="spark" runs only strict tasks: on Spark the channels use every core, so a relaxed task '
            "would gain nothing; leave determinism out",
            reason="NOT_ON_SPARK",
        )


def _check_continuous(options: TaskOptions) -> None:
    """Refuse options that have no effect on a continuous task, so that no caller relies on them."""
    refused = {
        "spill": (
            options.spill is not Spill.AUTO,
            "its joins keep their rows as state and do not spill; leave spill out",
        ),
        "broadcast": (bool(options.broadcast), "its joins route every row by its key; leave broadcast out"),
        "parallel_threshold_seconds": (
            options.parallel_threshold_seconds != _SHIPPED.parallel_threshold_seconds,
            "it runs on all of its channels; leave parallel_threshold_seconds out",
        ),
        "slot_memory": (bool(options.slot_memory), "its channels share memory_limit; leave slot_memory out"),
        "retries": (
            bool(options.retries),
            "its channels keep state from epoch to epoch, and go on from a checkpoint; leave retries out",
        ),
    }
    for name, (is_set, why) in refused.items():
        if is_set:
            raise InvalidRequest(f"{name} is not an option of a continuous task: {why}", reason="PER_EPOCH_OPTION")


def _check_time_zone(name: str) -> None:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidRequest(
            f"time_zone={name!r} must be a zone of the IANA database, such as 'Europe/Paris' or 'UTC'"
        ) from error
