"""The static tables of a loader as they were when it first read them, so that all of its tasks have the same rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from ...proto.arrow.arrow_streams import with_a_stream
from ...proto.errors import Refused
from ...proto.values import FileSplit, FoundFile, as_format
from ...splits import MissingAsNull, SplitLike, Upload, by_source
from .training_splits import FolderNames, content, fingerprint

FindFiles = Callable[[str | os.PathLike[str] | FileSplit], Sequence[FoundFile]]
Given = Mapping[str, SplitLike | Sequence[SplitLike]]


@dataclass(frozen=True, slots=True)
class PinnedTables:
    """Tables by the versions of their files, which a server compares with the files before it reads them.

    `digests` has a digest of each table: of its rows, or of the names, sizes and ends of its files. `uploads` has a
    digest of each file that the client sends.
    """

    tables: Mapping[str, Sequence[SplitLike]]
    digests: Mapping[str, str]
    uploads: Mapping[Path, str]

    def check_uploads(self) -> None:
        """Raise `Refused` if a file that the client sends has changed."""
        for path, digest in self.uploads.items():
            if _file_digest(path) != digest:
                raise Refused(
                    f"{path}, a file of a static table, has changed since the loader first sent it: make a new loader",
                    reason="FILE_CHANGED",
                )


def read_once(tables: Given) -> dict[str, list[SplitLike]]:
    """The tables with Arrow data as tables, since a stream can be read only once."""
    return {name: [_read(item) for item in items] for name, items in by_source(tables).items()}


def has_server_files(tables: Mapping[str, Sequence[SplitLike]]) -> bool:
    return any(_is_server_file(_inner(item)) for items in tables.values() for item in items)


def pinned(tables: Mapping[str, Sequence[SplitLike]], find_files: FindFiles) -> PinnedTables:
    """The tables of `read_once`, with the files that the server has now."""
    uploads: dict[Path, str] = {}
    pins = {name: _pinned(items, find_files, uploads) for name, items in tables.items()}
    return PinnedTables(
        {name: items for name, (items, _) in pins.items()},
        {name: digest for name, (_, digest) in pins.items()},
        uploads,
    )


def _pinned(items: Sequence[SplitLike], find_files: FindFiles, uploads: dict[Path, str]) -> tuple[list[SplitLike], str]:
    digest = hashlib.sha256()
    folders = FolderNames()
    pins: list[SplitLike] = []
    for item in items:
        data = _inner(item)
        if _is_server_file(data):
            split = data if isinstance(data, FileSplit) else FileSplit(os.fsdecode(data))
            part = (split.rows, split.row_groups) if data is split else ()
            for file in find_files(split):
                folders.add(file)
                digest.update(fingerprint(file, file.pieces, *part))
                pins.append(_like(item, _of_version(split, file)))
            continue
        if isinstance(data, Upload):
            uploads[data.path] = _file_digest(data.path)
            digest.update(uploads[data.path].encode())
        elif isinstance(data, pa.Table):
            digest.update(content(data.combine_chunks()))
        pins.append(item)  # creating a task refuses what is no data
    digest.update(folders.text().encode())
    return pins, digest.hexdigest()[:32]


def _read(item: Any) -> SplitLike:
    if isinstance(item, MissingAsNull):
        return MissingAsNull(_read(item.data))  # type: ignore[arg-type]
    is_arrow = hasattr(item, "__arrow_c_stream__") or hasattr(item, "__arrow_c_array__")
    return pa.table(with_a_stream(item)) if is_arrow else item  # type: ignore[no-any-return]


def _inner(item: SplitLike) -> Any:
    return item.data if isinstance(item, MissingAsNull) else item


def _like(item: SplitLike, data: FileSplit) -> SplitLike:
    return MissingAsNull(data) if isinstance(item, MissingAsNull) else data


def _is_server_file(data: object) -> bool:
    return isinstance(data, str | os.PathLike | FileSplit)


def _of_version(asked: FileSplit, file: FoundFile) -> FileSplit:
    return replace(asked, path=file.path, format=as_format(file.format), version=file.version)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=16)).hexdigest()
