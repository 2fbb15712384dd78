"""Errors that the values of rows cause, whose messages name the splits that the rows come from."""

from __future__ import annotations

from typing import Final, TypeGuard

from ...proto.errors import ExecutionError, NodeError

_REASONS: Final = frozenset(
    {
        ExecutionError.default_reason,
        "MORE_THAN_ONE_MATCH",
        "MORE_THAN_ONE_ROW",
        "NULL_IN_REQUIRED_COLUMN",
        "OVERFLOW",
        "ROW_TOO_LARGE",
        "VALUE_LOST",
        "WEIGHT_OVERFLOW",
    }
)


def caused_by_rows(error: Exception) -> TypeGuard[ExecutionError]:
    """True where rows that an operator has read caused the error. Errors of user code name their node instead."""
    return isinstance(error, ExecutionError) and not isinstance(error, NodeError) and error.reason in _REASONS


def located(error: ExecutionError, place: str) -> ExecutionError:
    """The error with the place of the rows behind its message, so that nothing is added to the message again."""
    with_place = ExecutionError(f"{error.message}, in {place}", reason=error.reason)
    with_place.sources = ()
    with_place.__cause__ = error
    return with_place
