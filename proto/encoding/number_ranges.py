"""Ranges of the numbers in requests: one table, by the name of a field, in whatever message the field stands.

`check_request` checks all numbers of a request that arrives over a wire before the server acts on it. `check_number`
checks options that are given in process by the same table. A field that is missing from the table stops the server when
it starts, so that a new number cannot be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from ..errors import InvalidRequest

LARGEST: Final = (1 << 63) - 1
LONGEST_SECONDS: Final = 10 * 365 * 86_400.0
MOST_CHANNELS: Final = 1024
MOST_LOCAL_CHANNELS: Final = 64
MOST_CORES: Final = 1 << 20
_LARGEST_32: Final = (1 << 32) - 1

_NUMBERS: Final = frozenset(
    getattr(FieldDescriptor, f"CPPTYPE_{kind}") for kind in ("INT32", "INT64", "UINT32", "UINT64", "DOUBLE", "FLOAT")
)


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers from `least` to `most`, both included, and the unit that they count."""

    least: float
    most: float
    what: str
    reason: str = "INVALID_REQUEST"

    def check(self, name: str, value: float) -> None:
        """Raise `InvalidRequest` with the name, the number and the range for a value outside of it. NaN is in no
        range.
        """
        if not self.least <= value <= self.most:
            raise InvalidRequest(
                f"{name}={value} must be {self.what}, from {self.least} to {self.most}", reason=self.reason
            )


def _seconds(none: str) -> Range:
    return Range(0.0, LONGEST_SECONDS, f"a number of seconds (0: {none})")


RANGES: Final = {
    "sequence": Range(0, LARGEST, "a split's number (0: the next)"),
    "number": Range(0, LARGEST, "the number of a split"),
    "through": Range(0, LARGEST, "the number of a source's last split (0: none)"),
    "epoch": Range(0, LARGEST, "an epoch's number"),
    "after": Range(0, LARGEST, "an epoch's number"),
    "row": Range(0, LARGEST, "the number of a row"),
    "run": Range(0, LARGEST, "the run of an epoch"),
    "first_row": Range(0, LARGEST, "the number of a row", "INVALID_RANGE"),
    "end_row": Range(0, LARGEST, "the number of a row", "INVALID_RANGE"),
    "row_groups": Range(0, _LARGEST_32, "the number of a row group", "INVALID_RANGE"),
    "watermark": Range(-LARGEST - 1, LARGEST, "a number of microseconds since 1970"),
    "watermarks": Range(-LARGEST - 1, LARGEST, "a number of microseconds since 1970"),
    "version": Range(0, LARGEST, "a version", "BAD_TRANSACTION"),
    "follows": Range(0, LARGEST, "a version", "BAD_TRANSACTION"),
    "rows": Range(0, LARGEST, "a number of rows"),
    "max_bytes": Range(0, LARGEST, "a number of bytes"),
    "wait_ms": Range(0, _LARGEST_32, "a number of milliseconds"),
    "interval_ms": Range(0, _LARGEST_32, "a number of milliseconds"),
    "channels": Range(0, MOST_CHANNELS, "a number of channels (0: chosen by the service)", "UNSUPPORTED_CHANNELS"),
    "auto_cores": Range(0, MOST_CORES, "a number of cores (0: those that there are)"),
    "max_pending_epochs": Range(1, _LARGEST_32 >> 1, "a number of epochs"),
    "memory_limit": Range(1, LARGEST, "a number of bytes"),
    "slot_memory": Range(0, LARGEST, "a number of bytes (0: a share of memory_limit)"),
    "spark_threshold_bytes": Range(0, LARGEST, "a number of bytes (0: every epoch runs on Spark)"),
    "queue_bytes": Range(1, LARGEST, "a number of bytes"),
    "output_bytes": Range(1, LARGEST, "a number of bytes"),
    "write_quota": Range(1, LARGEST, "a number of bytes"),
    "spill_quota": Range(0, LARGEST, "a number of bytes (0: no spilling)"),
    "idle_seconds": _seconds("the task is never deleted for being idle"),
    "loop_rows": Range(1, LARGEST, "a number of rows"),
    "loop_seconds": _seconds("no limit"),
    "epoch_seconds": _seconds("no limit"),
    "checkpoint_epochs": Range(0, _LARGEST_32 >> 1, "a number of epochs (0: never)"),
    "checkpoint_seconds": _seconds("never"),
    "reader": Range(0, 100_000, "the number of a reader, from 1"),
    "readers": Range(0, 100_000, "a number of readers (0: the task is deleted now)"),
    "retries": Range(0, 1_000, "a number of new starts of a channel"),
    "parallel_threshold_seconds": _seconds("several channels wherever they save time"),
}


def check_number(name: str, value: float) -> None:
    """Raise `InvalidRequest` where a number of this name cannot have the value."""
    RANGES[name].check(name, value)


def check_request(message: Message) -> None:
    """Raise `InvalidRequest` for the first number of the message, or of a message inside it, that is out of its
    range.
    """
    for check in _checks(message.DESCRIPTOR):
        check(message)


@cache
def _checks(descriptor: Descriptor) -> tuple[Callable[[Any], None], ...]:
    """A check for each field with numbers in it. The checks do not touch other fields: reading a field of bytes copies
    the bytes.
    """
    return tuple(check for field in descriptor.fields if (check := _check(field)) is not None)


def _check(field: FieldDescriptor) -> Callable[[Any], None] | None:
    if field.cpp_type in _NUMBERS:
        return _of_numbers(field.name, RANGES[field.name], field.is_repeated)
    if field.message_type is None:
        return None
    if field.message_type.GetOptions().map_entry:
        return _of_map(field.name, field.message_type.fields_by_name["value"])
    if not _checks(field.message_type):
        return None
    return _of_messages(field.name, field.is_repeated)


def _of_numbers(name: str, known: Range, repeated: bool) -> Callable[[Any], None]:
    def check(message: Any) -> None:
        value = getattr(message, name)
        for number in value if repeated else (value,):
            known.check(name, number)

    def check_given(message: Any) -> None:
        if message.HasField(name):
            known.check(name, getattr(message, name))

    return check if repeated or known.least <= 0 <= known.most else check_given


def _of_map(name: str, value: FieldDescriptor) -> Callable[[Any], None] | None:
    if value.cpp_type in _NUMBERS:
        known = RANGES[name]
        return lambda message: _all(
            getattr(message, name).items(), lambda of, number: known.check(f"{name}[{of!r}]", number)
        )
    if value.message_type is None or not _checks(value.message_type):
        return None
    return lambda message: _all(getattr(message, name).items(), lambda _, inner: check_request(inner))


def _all(items: Iterable[tuple[str, Any]], check: Callable[[str, Any], None]) -> None:
    for key, value in items:
        check(key, value)


def _of_messages(name: str, repeated: bool) -> Callable[[Any], None]:
    def check(message: Any) -> None:
        if repeated:
            for inner in getattr(message, name):
                check_request(inner)
        elif message.HasField(name):
            check_request(getattr(message, name))

    return check
