"""What a task may be asked to do: options are checked once, when the task is made, with a sentence each."""

from __future__ import annotations

import zoneinfo

from ..proto.errors import InvalidRequest
from ..proto.values import TaskOptions

SMALLEST_MEMORY = 32 << 20


def check_options(options: TaskOptions) -> TaskOptions:
    """The options themselves, or InvalidRequest naming the one that cannot be."""
    if options.channels != 1:
        raise InvalidRequest(
            f"channels={options.channels}: this service runs a task on one channel; ask for channels=1",
            reason="UNSUPPORTED_CHANNELS",
        )
    if options.max_pending_epochs < 1:
        raise InvalidRequest(f"max_pending_epochs={options.max_pending_epochs} must be at least 1")
    if options.memory_limit < SMALLEST_MEMORY:
        raise InvalidRequest(f"memory_limit={options.memory_limit} must be at least {SMALLEST_MEMORY} bytes")
    for name in ("queue_bytes", "output_bytes"):
        if getattr(options, name) < 1:
            raise InvalidRequest(f"{name}={getattr(options, name)} must be at least 1 byte")
    if options.spill_quota < 0:
        raise InvalidRequest(f"spill_quota={options.spill_quota} must not be negative; 0 means no spilling")
    if not 0 <= options.idle_seconds < float("inf"):
        raise InvalidRequest(f"idle_seconds={options.idle_seconds} must be 0 (never) or a number of seconds")
    _check_time_zone(options.time_zone)
    return options


def _check_time_zone(name: str) -> None:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidRequest(
            f"time_zone={name!r} is not a zone of the IANA database; it looks like 'Europe/Paris' or 'UTC'"
        ) from error
