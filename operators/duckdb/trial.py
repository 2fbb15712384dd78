"""Tries whether DuckDB takes a statement, before there is any input."""

from __future__ import annotations

from collections.abc import Sequence

from . import failures
from .instances import Instance
from .statement import register, with_definitions
from .statement_inputs import ContextInput, ContextSource, FragmentInput, StreamSource


def refusal(instance: Instance, sql: str, streams: Sequence[StreamSource], context: ContextSource | None) -> str | None:
    """DuckDB's reason to refuse the statement, whatever its streams hold; None if DuckDB takes it. DuckDB plans the
    statement and does not run it.
    """
    connection = instance.connect()
    inputs = [(stream, FragmentInput(stream, strict=False, check=_go_on)) for stream in streams]
    clock = None if context is None else (context.relation, ContextInput(context))
    try:
        definitions = register(instance.engine, connection, inputs, clock)
        instance.engine.prepare(connection, "trial", with_definitions(sql, definitions))
    except failures.ENGINE_ERRORS as error:
        instance.broken = instance.broken or failures.is_fatal(error)
        return failures.sentence(str(error))
    finally:
        instance.disconnect(connection)
    return None


def _go_on() -> None:
    """Lets a stream go on: no stream is read here."""
