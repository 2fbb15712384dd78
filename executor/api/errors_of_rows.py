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


def located(error: ExecutionError, rows_of: str) -> ExecutionError:
    """The error with `rows_of`, the splits of its rows, behind the message. Nothing is added to the message again."""
    named = ExecutionError(f"{error.message}, in {rows_of}", reason=error.reason)
    named.sources = ()
    named.__cause__ = error
    return named
