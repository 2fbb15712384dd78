"""A file is read as it was when its split was accepted, or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..proto.errors import SplitError
from .piece import FilePiece, FileVersion


def version_of(path: str) -> FileVersion:
    """Raises `OSError` where there is no such file."""
    status = os.stat(path)
    return FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns)


def check_versions(pieces: Iterable[FilePiece]) -> None:
    """`SplitError` for the first file that is gone, another one, or no longer where its path led."""
    seen: str | None = None
    for piece in pieces:
        if piece.path != seen:
            check_version(piece)
        seen = piece.path


def check_version(piece: FilePiece) -> None:
    try:
        now = version_of(piece.path)
    except OSError as error:
        raise SplitError(
            f"{piece.path} ({piece.origin}) cannot be read any more where the task runs: {error.strerror}",
            reason="FILE_MISSING",
        ) from error
    if now != piece.version or os.path.realpath(piece.path) != piece.path:
        raise SplitError(
            f"{piece.path} ({piece.origin}) has changed since its split was accepted; add it anew",
            reason="FILE_CHANGED",
        )
