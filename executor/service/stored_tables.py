"""The static tables of a durable task, as its record has them and as the call had them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ...operators.core.piece import FileVersion
from ...proto.encoding import messages
from ...proto.errors import SplitError
from ...proto.values import FileSplit, InlineSplit, Split
from ..journal.kept_bytes import KeptBytes
from ..journal.kept_reader import Kept
from ..journal.records import Creation, StoredFile, StoredSplit
from ..ledger.split_digest import RowsStream
from ..runtime.batch_store import SpillSpace
from ..tasks.task_uploads import uploaded_again

Tables = Mapping[str, Sequence[Split]]


def keep_tables(
    tables: Tables, rows: KeptBytes, folder: Path
) -> tuple[dict[str, tuple[StoredSplit, ...]], tuple[Kept, ...]]:
    """The tables for a record, and the rows and uploaded files in `folder` that are kept for them."""
    kept: list[Kept] = []

    def stored(split: Split) -> StoredSplit:
        match split:
            case InlineSplit():
                kept.append(rows.keep(RowsStream(split)))
                said = FileSplit(
                    "",
                    watermark=split.watermark,
                    change_column=split.change_column,
                    missing_columns=split.missing_columns,
                )
                return StoredSplit(split=messages.split_message(said), kept=kept[-1].digest)
            case FileSplit() if Path(split.path).parent == folder:
                kept.append(rows.keep_file(Path(split.path)))
                return StoredSplit(split=messages.split_message(split), kept=kept[-1].digest)
            case FileSplit():
                return StoredSplit(split=messages.split_message(split))

    try:
        return {name: tuple(map(stored, splits)) for name, splits in tables.items()}, tuple(kept)
    except BaseException:
        rows.release([one.digest for one in kept])
        raise


def tables_of(creation: Creation, rows: KeptBytes, space: SpillSpace) -> dict[str, list[Split]]:
    """The tables of a record. Uploaded files are in the task's space again."""
    return {name: [_split(stored, rows, space) for stored in splits] for name, splits in creation.tables.items()}


def _split(stored: StoredSplit, rows: KeptBytes, space: SpillSpace) -> Split:
    if stored.kept is None:
        return messages.split_value(stored.split)
    kept = rows.known(stored.kept)
    if stored.split.file.path:
        split = messages.split_value(stored.split)
        assert isinstance(split, FileSplit)
        return replace(split, path=str(uploaded_again(kept, split.path, space.files)))
    schema, rows_kept, read = kept.rows()
    watermark, change_column, missing_columns = messages.said_of_rows(stored.split)
    return InlineSplit(
        schema=schema,
        batches=tuple(read(0, rows_kept)),
        watermark=watermark,
        change_column=change_column,
        missing_columns=missing_columns,
    )


def stored_files(files: Mapping[str, FileVersion], folder: Path) -> tuple[StoredFile, ...]:
    """The files that a record names: not those in `folder`, which are kept themselves."""
    return tuple(
        StoredFile(path=path, format="", version=version)
        for path, version in files.items()
        if Path(path).parent != folder
    )


def check_files(creation: Creation, files: Mapping[str, FileVersion], folder: Path) -> None:
    """Raise `SplitError` if the static tables have other files than when the task was made. `folder` is the task's."""
    now = {file.path: file.version for file in stored_files(files, folder)}
    for path in sorted(now.keys() - {file.path for file in creation.files}):
        raise SplitError(
            f"{path} is among the files of a static table, and was not when the task was made: move the file to "
            "another folder, and recover the task",
            reason="FILE_CHANGED",
        )
    for file in creation.files:
        if now.get(file.path) != file.version:
            raise SplitError(
                f"{file.path}, a file of a static table, has changed or is gone since the task was made: put the file "
                "back as it was, with its time of change, and recover the task",
                reason="FILE_CHANGED",
            )
