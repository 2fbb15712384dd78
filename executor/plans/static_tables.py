"""Static tables that came with the call. They stay for the life of the task, and count against its limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from ...operators.core.piece import FilePiece, FileVersion, Piece
from ...operators.core.sizes import batch_bytes
from ...proto.errors import Exhausted, InvalidRequest
from ...proto.values import FileSplit, InlineSplit, Split, TaskOptions
from ..runtime.batch_store import FILE_MARGIN, SpillSpace

Tables = Mapping[str, Sequence[Split]]


def hold_tables(tables: Tables, options: TaskOptions, space: SpillSpace) -> tuple[Tables, int]:
    """The tables, and the bytes of them that stay in memory: half of queue_bytes at most.

    The other tables go to files of the task, as if they had been uploaded. Raises `Exhausted` if the quota has no room.
    """
    room = options.queue_bytes // 2
    held = 0

    def placed(name: str, splits: Sequence[Split]) -> Iterator[Split]:
        nonlocal held
        for split in splits:
            size = sum(map(batch_bytes, split.batches)) if isinstance(split, InlineSplit) else 0
            if isinstance(split, InlineSplit) and held + size > room:
                yield _in_file(name, split, size, options, space)
            else:
                held += size
                yield split

    return {name: list(placed(name, splits)) for name, splits in tables.items()}, held


def sizes(tables: Mapping[str, Sequence[Piece]]) -> Mapping[str, int]:
    """The rows of each table, or the bytes of its files if they do not say their rows."""
    return {name: sum(map(_size, pieces)) for name, pieces in tables.items()}


def file_versions(tables: Mapping[str, Sequence[Piece]]) -> Mapping[str, FileVersion]:
    """The files of the tables, by their paths."""
    return {piece.path: piece.version for pieces in tables.values() for piece in pieces if isinstance(piece, FilePiece)}


def _size(piece: Piece) -> int:
    if piece.row_count is not None:
        return piece.row_count
    return piece.version.size if isinstance(piece, FilePiece) else 0


def _in_file(name: str, split: InlineSplit, size: int, options: TaskOptions, space: SpillSpace) -> FileSplit:
    # Each batch takes another margin, for its entry in the file's footer.
    taken = size + FILE_MARGIN * (1 + len(split.batches))
    if not space.quota.take(taken):
        raise Exhausted(
            f"table {name!r} has {size} bytes inline: more than queue_bytes ({options.queue_bytes}, half of it for "
            f"tables) and spill_quota ({options.spill_quota}) leave for the table; raise one of the two, or give the "
            "table as a file",
            reason="TABLE_TOO_LARGE",
        )
    path = space.files.new_path(".table.arrow")
    whole = pa.Table.from_batches(split.batches, split.schema).unify_dictionaries()
    try:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as writer:
            writer.write_table(whole)
    except OSError as error:  # the task is not made, and its folder is removed with the written files
        raise Exhausted(
            f"spilling table {name!r} to disk failed: {error}; give the spill folder room", reason="SPILL_FAILED"
        ) from error
    used = path.stat().st_size
    space.quota.give(taken - used)
    space.quota.keep(used)
    return FileSplit(
        str(path),
        format="inline",
        watermark=split.watermark,
        change_column=split.change_column,
        missing_columns=split.missing_columns,
    )


def refuse_changes(split: Split, origin: str) -> None:
    """Refuse a split with a change column, which a per-epoch task and a static table cannot have."""
    if split.change_column is not None:
        raise InvalidRequest(
            f"{origin} names a change column ({split.change_column!r}), but its rows are not changes: leave the "
            'change column out, or use a task with mode="continuous"',
            reason="UNEXPECTED_CHANGES",
        )
