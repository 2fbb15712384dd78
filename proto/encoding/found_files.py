"""Turns files that were found into wire messages, and back."""

from __future__ import annotations

from .. import values as v
from ..tidegate.v1 import tasks_pb2 as pb


def found_message(file: v.FoundFile) -> pb.FoundFile:
    folders = [pb.FolderValue(column=column, value=value) for column, value in file.folders]
    pieces = [pb.RowRange(first_row=first, end_row=end) for first, end in file.pieces]
    return pb.FoundFile(
        path=file.path,
        format=file.format,
        size=file.size,
        folders=folders,
        pieces=pieces,
        version=file.version,
        ending=file.ending,
    )


def found_value(message: pb.FoundFile) -> v.FoundFile:
    folders = tuple((folder.column, folder.value if folder.HasField("value") else None) for folder in message.folders)
    pieces = tuple((piece.first_row, piece.end_row) for piece in message.pieces)
    return v.FoundFile(
        path=message.path,
        format=message.format,
        size=message.size,
        folders=folders,
        pieces=pieces,
        version=message.version,
        ending=message.ending,
    )
