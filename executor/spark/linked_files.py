"""Datasets that a task reads: links to their files, which the channels find in the staging place.

While it is decided which channel reads which rows, a partition is one piece, as it is in this process. Then it becomes
the files that these rows are in. The files are linked, so that they exist as long as the task.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ...operators.core.piece import FilePiece, FileVersion, Piece
from ...operators.sources.formats.arrow import Inline
from ...operators.sources.split_pieces import open_pieces
from .staging import StagingPlace


class LinkedFiles:
    """The linked files of the Datasets that a task reads."""

    def __init__(self, staging: StagingPlace) -> None:
        self._staging = staging
        self._files: dict[str, tuple[FilePiece, ...]] = {}

    def standing_for(self, piece: Piece, paths: Sequence[str]) -> FilePiece:
        """A piece that stands for the same rows, in these files.

        It is cut like `piece`, and resolved before it is read.
        """
        folder = self._staging.new_folder("dataset")
        files = open_pieces([_linked(path, folder / f"{at}.arrow", piece) for at, path in enumerate(paths)])
        self._files[str(folder)] = tuple(file for file in files if isinstance(file, FilePiece))
        rows = sum(file.row_count or 0 for file in self._files[str(folder)])
        return FilePiece(
            path=str(folder),
            format=Inline.name,
            version=FileVersion(size=0, modified_ns=0),
            origin=piece.origin,
            schema=piece.schema,
            rows=(0, rows),
            row_count=rows,
            file_rows=rows,
            part=piece.part,
        )

    def resolved(self, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        return tuple(file for piece in pieces for file in self._resolved(piece))

    def _resolved(self, piece: Piece) -> Iterator[Piece]:
        if not isinstance(piece, FilePiece) or piece.path not in self._files or piece.rows is None:
            yield piece
            return
        first, end = piece.rows
        start = 0
        for file in self._files[piece.path]:
            rows = file.row_count or 0
            low, high = max(first, start) - start, min(end, start + rows) - start
            if low < high:
                yield replace(file, rows=(low, high), row_count=high - low)
            start += rows


def _linked(path: str, link: Path, piece: Piece) -> FilePiece:
    with suppress(OSError):  # the folder is on another file system, or on one without links
        os.link(path, link)
    if not link.exists():
        shutil.copyfile(path, link)
    status = link.stat()
    version = FileVersion(size=status.st_size, modified_ns=status.st_mtime_ns)
    return FilePiece(path=str(link), format=Inline.name, version=version, origin=piece.origin, part=piece.part)
