"""Values for the dynamic parameters of a plan, from Python or from text, as an Arrow stream of one row."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from ..arrow.arrow_ipc import sendable, stream_bytes
from ..arrow.levels import check_levels
from ..errors import InvalidRequest
from ..values import InlineSplit

_MOST_NUMBER: Final = (1 << 32) - 1
_NANOS: Final = 1_000
_ISO: Final[tuple[Callable[[str], object], ...]] = (
    dt.date.fromisoformat,
    dt.datetime.fromisoformat,
    dt.time.fromisoformat,
)


def parameters_stream(parameters: Mapping[int, object]) -> bytes:
    """The values, a column for each, called by its parameter's number; no bytes if there are none."""
    if not isinstance(parameters, Mapping):
        raise InvalidRequest(
            f"parameters must be a dict of values by number, not {parameters!r:.80}", reason="BAD_PARAMETER"
        )
    columns = {str(_number(number)): _array(number, value) for number, value in sorted(parameters.items(), key=_first)}
    if not columns:
        return b""
    batch = pa.RecordBatch.from_pydict(columns)
    check_levels(batch.schema)
    row = sendable(InlineSplit(schema=batch.schema, batches=(batch,)))
    return stream_bytes(row.schema, row.batches)


def numbered(number: str, value: str) -> tuple[int, object]:
    """A parameter's number and its value, as texts.

    A value is JSON, or a date, a timestamp or a time in ISO 8601; any other text is itself. A text that looks like one
    of these is written in double quotes, as JSON has it.
    """
    if not (number.isascii() and number.isdigit()):
        raise InvalidRequest(f"a parameter must be called by its number, as 0, not {number!r}", reason="BAD_PARAMETER")
    return int(number), _parsed(value)


def _parsed(text: str) -> object:
    with suppress(ValueError, RecursionError):
        return json.loads(text, parse_float=Decimal)
    for read in _ISO:
        with suppress(ValueError):
            return read(text)
    return text


def _first(item: tuple[Any, object]) -> tuple[bool, Any]:
    """Sorts by number, and what is none before them, so that the first error is about it."""
    return isinstance(item[0], int), item[0] if isinstance(item[0], int) else str(item[0])


def _number(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= _MOST_NUMBER:
        raise InvalidRequest(
            f"a parameter must be called by its number, from 0 to {_MOST_NUMBER}, not {number!r}; DataFusion's $1 is "
            "parameter 0",
            reason="BAD_PARAMETER",
        )
    return number


def _array(number: int, value: Any) -> pa.Array:
    if isinstance(value, dt.timedelta):
        micros = value.seconds * 1_000_000 + value.microseconds
        value = pa.MonthDayNano([0, value.days, micros * _NANOS])
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        value = Decimal(value)
    try:
        if isinstance(value, int) and value >= 1 << 63:
            return pa.array([value], pa.uint64())
        return pa.repeat(value, 1) if isinstance(value, pa.Scalar) else pa.array([value])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"parameter {number} cannot be {value!r:.100}: {error}", reason="BAD_PARAMETER") from error
