"""Message classes for Substrait plans of every release, and for decoding them a level at a time.

The installed descriptors are copied into a private `DescriptorPool` and changed there:

- *Old fields are back* (`restored`). Newer Substrait releases reserve the numbers of removed fields, and stock
  classes then lose these fields silently.
- *Recursion is cut.* If a message of `RECURSIVE` occurs inside another message, the field holds the message's number
  in a table of messages instead (`message_nodes`), 0 for none. So no message nests deeper than the schema does,
  protobuf's limit of 100 nested messages is never met, and every byte of a plan is read once, however deep the plan is.
- *`Any` is a plain message*, so that the JSON form of an `Any` can be read without knowing the type inside.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FileDescriptor
from substrait.plan_pb2 import DESCRIPTOR as PLAN_FILE

from .restored import NEW_MESSAGES, OLD_JOIN_TYPES, RESTORED, Restored

_Field = descriptor_pb2.FieldDescriptorProto
_Message = descriptor_pb2.DescriptorProto
_File = descriptor_pb2.FileDescriptorProto

ANY: Final = "substrait.extensions.AnyMessage"
RECURSIVE: Final = frozenset(
    {
        "substrait.Rel",
        "substrait.Expression",
        "substrait.Expression.Literal",
        "substrait.Expression.ReferenceSegment",
        "substrait.Expression.MaskExpression.Select",
        "substrait.Type",
    }
)


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """The private pool. `hoisted` gives the recursive message that a field (of a message, with a number) held before
    the cut.

    `classes` are those of all messages, by full name. The pool keeps them because protobuf finds them by weak
    references alone: protobuf would make them anew after every garbage collection, and hand out a class that another
    thread's collection is about to take apart.
    """

    descriptors: descriptor_pool.DescriptorPool
    hoisted: Mapping[tuple[str, int], str]
    classes: Mapping[str, type[Any]]

    def descriptor(self, message: str) -> Descriptor:
        return self.descriptors.FindMessageTypeByName(message)

    def message_class(self, message: str) -> type[Any]:
        return self.classes[message]


@functools.cache
def pool() -> Pool:
    """The pool, made once in a process."""
    files, messages = restored_files()
    hoisted = dict(_cut(messages))
    descriptors = descriptor_pool.DescriptorPool()
    for file in files:
        descriptors.Add(file)
    classes = {name: message_factory.GetMessageClass(descriptors.FindMessageTypeByName(name)) for name in messages}
    return Pool(descriptors=descriptors, hoisted=hoisted, classes=classes)


def restored_files() -> tuple[list[_File], dict[str, _Message]]:
    """Copies of the installed files with the old fields back, and the messages in them by full name."""
    files = _copies(PLAN_FILE)
    messages = {name: message for file in files for name, message in _messages(file)}
    _restore(files, messages)
    return files, messages


def _copies(root: FileDescriptor) -> list[_File]:
    """Copies of a file and of all it imports, imports first."""
    copies: dict[str, _File] = {}

    def visit(file: FileDescriptor) -> None:  # as deep as files import each other: three levels
        if file.name not in copies:
            for dependency in file.dependencies:
                visit(dependency)
            file.CopyToProto(copy := _File())
            copies[file.name] = copy

    visit(root)
    return list(copies.values())


def _messages(file: _File) -> Iterator[tuple[str, _Message]]:
    pending = [(f"{file.package}.{message.name}", message) for message in file.message_type]
    while pending:
        name, message = pending.pop()
        yield name, message
        pending.extend((f"{name}.{nested.name}", nested) for nested in message.nested_type)


def _restore(files: list[_File], messages: dict[str, _Message]) -> None:
    by_package = {file.package: file for file in files}
    for parent, name in NEW_MESSAGES:
        if parent in messages:
            messages[f"{parent}.{name}"] = messages[parent].nested_type.add(name=name)
        else:
            messages[f"{parent}.{name}"] = by_package[parent].message_type.add(name=name)
    for field in RESTORED:
        _add(messages[field.message], field, messages)
    join_types = next(e for e in messages["substrait.JoinRel"].enum_type if e.name == "JoinType")
    join_types.options.allow_alias = True
    for spelling, number in OLD_JOIN_TYPES.items():
        join_types.value.add(name=spelling, number=number)


def _add(message: _Message, restored: Restored, messages: Mapping[str, _Message]) -> None:
    for reserved in [r for r in message.reserved_range if r.start <= restored.number < r.end]:
        message.reserved_range.remove(reserved)
    if restored.name in message.reserved_name:
        message.reserved_name.remove(restored.name)
    field = message.field.add(name=restored.name, number=restored.number)
    field.label = _Field.LABEL_REPEATED if restored.repeated else _Field.LABEL_OPTIONAL
    if "." in restored.type:
        field.type = _Field.TYPE_MESSAGE if restored.type in messages else _Field.TYPE_ENUM
        field.type_name = f".{restored.type}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{restored.type.upper()}")
    oneof = restored.oneof or (f"_{restored.name}" if restored.presence else "")
    if oneof:
        field.oneof_index = _oneof(message, oneof)
        field.proto3_optional = restored.presence


def _oneof(message: _Message, name: str) -> int:
    names = [oneof.name for oneof in message.oneof_decl]
    if name not in names:
        message.oneof_decl.add(name=name)
        names.append(name)
    return names.index(name)


def _cut(messages: Mapping[str, _Message]) -> Iterator[tuple[tuple[str, int], str]]:
    for name, message in messages.items():
        for field in message.field:
            target = field.type_name.removeprefix(".")
            if target in RECURSIVE:
                yield (name, field.number), target
                field.type = _Field.TYPE_UINT32
                field.ClearField("type_name")
            elif target == "google.protobuf.Any":
                field.type_name = f".{ANY}"
