"""The wire as Markdown: services, messages and enumerations of the `.proto` files, with their comments."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)

from tidegate.proto import generate

# Numbers of fields in descriptor.proto, of which the path of a comment is made.
_MESSAGES, _ENUMS, _SERVICES = 4, 5, 6
_NESTED_FIELDS, _NESTED_MESSAGES, _NESTED_ENUMS, _NESTED_VALUES, _NESTED_METHODS = 2, 3, 4, 2, 2

_SCALARS: Final = {
    number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()
}  # message and enum types have names instead

_STORED: Final = "journal.proto"
"""Messages that are stored and never sent."""

Path_ = tuple[int, ...]


def wire() -> str:
    """The part of the page on the wire."""
    parts: list[str] = []
    for file in _files():
        parts += _File(file).text()
    return "\n\n".join(parts)


def _files() -> Sequence[FileDescriptorProto]:
    from grpc_tools import protoc

    folder = generate.HERE / generate.PACKAGE
    sources = [path for path in sorted(folder.glob("*.proto")) if path.name != _STORED]
    with tempfile.TemporaryDirectory() as temporary:
        target = Path(temporary) / "descriptors"
        well_known = resources.files("grpc_tools") / "_proto"
        arguments = [f"-I{generate.HERE}", f"-I{well_known}", "--include_source_info", f"--descriptor_set_out={target}"]
        if protoc.main(["protoc", *arguments, *map(str, sources)]) != 0:
            raise SystemExit("protoc refused the .proto files; its messages are above")
        return list(FileDescriptorSet.FromString(target.read_bytes()).file)


class _File:
    """One `.proto` file, with its comments by the paths of what they are about."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._comments = {
            tuple(location.path): location.leading_comments.strip() or location.trailing_comments.strip()
            for location in file.source_code_info.location
        }

    def text(self) -> Iterator[str]:
        yield f"### `{self._file.name}`"
        for number, service in enumerate(self._file.service):
            yield from self._service(service, (_SERVICES, number))
        for number, message in enumerate(self._file.message_type):
            yield from self._message(message, (_MESSAGES, number), "")
        for number, enumeration in enumerate(self._file.enum_type):
            yield from self._enumeration(enumeration, (_ENUMS, number), "")

    def _comment(self, path: Path_) -> str:
        return " ".join(self._comments.get(path, "").split())

    def _head(self, kind: str, name: str, path: Path_) -> Iterator[str]:
        yield f"#### {kind} `{name}`"
        if comment := self._comment(path):
            yield comment

    def _service(self, service: ServiceDescriptorProto, path: Path_) -> Iterator[str]:
        yield from self._head("service", service.name, path)
        rows = []
        for number, method in enumerate(service.method):
            takes = ("stream of " if method.client_streaming else "") + f"`{_short(method.input_type)}`"
            gives = ("stream of " if method.server_streaming else "") + f"`{_short(method.output_type)}`"
            rows.append((f"`{method.name}`", takes, gives, self._comment((*path, _NESTED_METHODS, number))))
        yield _table(("Call", "Takes", "Gives", "Meaning"), rows)

    def _message(self, message: DescriptorProto, path: Path_, outer: str) -> Iterator[str]:
        if message.options.map_entry:
            return
        name = f"{outer}{message.name}"
        yield from self._head("message", name, path)
        rows = []
        for number, field in enumerate(message.field):
            comment = self._comment((*path, _NESTED_FIELDS, number))
            rows.append((f"`{field.name}`", _type(field, message), str(field.number), comment))
        if rows:
            yield _table(("Field", "Type", "Number", "Meaning"), rows)
        for number, nested in enumerate(message.nested_type):
            yield from self._message(nested, (*path, _NESTED_MESSAGES, number), f"{name}.")
        for number, enumeration in enumerate(message.enum_type):
            yield from self._enumeration(enumeration, (*path, _NESTED_ENUMS, number), f"{name}.")

    def _enumeration(self, enumeration: EnumDescriptorProto, path: Path_, outer: str) -> Iterator[str]:
        yield from self._head("enum", f"{outer}{enumeration.name}", path)
        rows = [
            (f"`{value.name}`", str(value.number), self._comment((*path, _NESTED_VALUES, number)))
            for number, value in enumerate(enumeration.value)
        ]
        yield _table(("Value", "Number", "Meaning"), rows)


def _type(field: FieldDescriptorProto, message: DescriptorProto) -> str:
    entries = {entry.name: entry for entry in message.nested_type if entry.options.map_entry}
    name = _short(field.type_name) if field.type_name else _SCALARS[field.type]
    if (entry := entries.get(name.rpartition(".")[2])) is not None:
        return f"map of {' to '.join(_type(field, entry) for field in entry.field)}"
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"repeated `{name}`"
    if field.proto3_optional:
        return f"optional `{name}`"
    if field.HasField("oneof_index"):
        return f"`{name}`, one of `{message.oneof_decl[field.oneof_index].name}`"
    return f"`{name}`"


def _short(name: str) -> str:
    return name.removeprefix(".tidegate.v1.").removeprefix(".")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
