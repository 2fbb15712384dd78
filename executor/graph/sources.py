"""The files that a graph reads: found, opened, and what their columns are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ...operators.piece import FilePiece, Piece
from ...operators.splits import expand, open_pieces
from ...planner.graph.lower import columns_of
from ...proto.errors import InvalidRequest
from ...proto.graph import DatasetSource, FileSource, GraphNode
from ...proto.values import FileSplit


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphFiles:
    """The pieces of each node that reads files, in order, and the schema of its first file where that tells one."""

    pieces: Mapping[str, tuple[FilePiece, ...]]
    schemas: Mapping[str, pa.Schema]


def find_files(nodes: Sequence[GraphNode], roots: Sequence[str], side: str) -> GraphFiles:
    """Raises what says that a file is not there, or not to be read."""
    pieces: dict[str, tuple[FilePiece, ...]] = {}
    schemas: dict[str, pa.Schema] = {}
    for node in nodes:
        match node:
            case FileSource():
                found = _expanded(node.name, node.files, roots, side)
                pieces[node.name] = found
                schema = _schema(found) if node.schema is None else node.schema
                if schema is not None:
                    schemas[node.name] = schema
            case DatasetSource():
                pieces[node.name] = tuple(_of_dataset(node, side))
            case _:
                pass
    return GraphFiles(pieces=pieces, schemas=schemas)


def opened(files: GraphFiles, schemas: Mapping[str, pa.Schema]) -> dict[str, tuple[Piece, ...]]:
    """The pieces, cut into those that are read as a whole; `schemas` are those of the nodes."""
    return {name: open_pieces(pieces, columns_of(schemas[name])) for name, pieces in files.pieces.items()}


def _expanded(name: str, splits: Sequence[FileSplit], roots: Sequence[str], side: str) -> tuple[FilePiece, ...]:
    for split in splits:
        if split.change_column is not None:
            raise InvalidRequest(
                f"node {name!r} reads {split.path} with a change column, but rows of a graph are no changes",
                reason="UNEXPECTED_CHANGES",
            )
    return tuple(piece for split in splits for piece in expand(split, roots, f"node {name!r}", side=side))


def _of_dataset(node: DatasetSource, side: str) -> Iterator[FilePiece]:
    """Its files, which may be read wherever they are, with the numbers of their partitions."""
    for number, splits in enumerate(node.dataset.partitions()):
        folders = sorted({_folder(split) for split in splits})
        for piece in _expanded(node.name, splits, folders, side):
            yield replace(piece, part=number)


def _schema(pieces: Sequence[FilePiece]) -> pa.Schema | None:
    first = open_pieces(pieces[:1])
    return next((piece.schema for piece in first if isinstance(piece, FilePiece)), None)


def _folder(split: FileSplit) -> str:
    return split.path.rpartition("/")[0]
