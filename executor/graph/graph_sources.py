"""The files and Datasets that a graph reads: found, opened, and with their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ...operators.core.piece import FilePiece, InlinePiece, Piece
from ...operators.sources.split_pieces import expand, open_pieces
from ...planner.graph.lower_graph import columns_of
from ...proto.errors import InvalidRequest
from ...proto.graph import DatasetSource, FileSource, GraphNode
from ...proto.values import FileSplit, TaskOptions, with_missing
from ..datasets.stored_dataset import KeptDataset


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphFiles:
    """The pieces of each node that reads files or a Dataset, in order, and its first file's schema if there is one."""

    pieces: Mapping[str, tuple[Piece, ...]]
    schemas: Mapping[str, pa.Schema]


def find_files(nodes: Sequence[GraphNode], options: TaskOptions, roots: Sequence[str], side: str) -> GraphFiles:
    """Find the files of these nodes. Raises an error for a file that does not exist or may not be read."""
    pieces: dict[str, tuple[Piece, ...]] = {}
    schemas: dict[str, pa.Schema] = {}
    for node in nodes:
        match node:
            case FileSource():
                files = [with_missing(split, options.missing_columns) for split in node.files]
                node_pieces = _expanded(node.name, files, roots, side)
                pieces[node.name] = node_pieces
                schema = _schema(node_pieces) if node.schema is None else node.schema
                if schema is not None:
                    schemas[node.name] = schema
            case DatasetSource():
                pieces[node.name] = tuple(_of_dataset(node))
            case _:
                pass
    return GraphFiles(pieces=pieces, schemas=schemas)


def opened(files: GraphFiles, schemas: Mapping[str, pa.Schema]) -> dict[str, tuple[Piece, ...]]:
    """The opened pieces, cut into parts that are read as a whole. `schemas` are the schemas of the nodes."""
    return {name: open_pieces(pieces, columns_of(schemas[name])) for name, pieces in files.pieces.items()}


def _expanded(name: str, splits: Sequence[FileSplit], roots: Sequence[str], side: str) -> tuple[FilePiece, ...]:
    for split in splits:
        if split.change_column is not None:
            raise InvalidRequest(
                f"node {name!r} reads {split.path} with a change column, but a graph's rows are not changes: leave "
                "the change column out",
                reason="UNEXPECTED_CHANGES",
            )
    return tuple(piece for split in splits for piece in expand(split, roots, f"node {name!r}", side=side))


def _of_dataset(node: DatasetSource) -> Iterator[InlinePiece]:
    """A piece for each of the Dataset's partitions."""
    assert isinstance(node.dataset, KeptDataset)
    for number, (rows, read) in enumerate(node.dataset.readers()):
        yield InlinePiece(
            read=read,
            schema=node.dataset.schema,
            origin=f"node {node.name!r}",
            rows=(0, rows),
            row_count=rows,
            part=number,
        )


def _schema(pieces: Sequence[FilePiece]) -> pa.Schema | None:
    first = open_pieces(pieces[:1])
    return next((piece.schema for piece in first if isinstance(piece, FilePiece)), None)
