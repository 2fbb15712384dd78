"""Text is read in blocks, and a row has to be within two that follow each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa


def within_blocks(reader: Callable[[], Iterable[pa.RecordBatch]], otherwise: str) -> Iterator[pa.RecordBatch]:
    """The batches of a reader of text, which reads its first block when it is made. Its own advice on longer rows is
    for who makes it: `otherwise` is said instead.
    """
    try:
        yield from reader()
    except pa.ArrowInvalid as error:
        if "straddling object" not in str(error):
            raise
        raise pa.ArrowInvalid(otherwise) from error
