"""Decodes `ReadRel.LocalFiles`: files that the plan itself names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

from .... import ir
from ... import poison
from ...encoding.message_nodes import Message
from ...plan_path import PlanPath
from ...scope import Scope

if TYPE_CHECKING:
    from ...decoder import Decoder, Steps
    from .read import Base

FORMATS: Final[Mapping[str, str]] = {"parquet": "parquet", "arrow": "arrow", "orc": "orc", "text": "csv"}

REFUSED_FORMATS: Final[Mapping[str, str]] = {
    "dwrf": "DWRF files are not supported; write Parquet, Arrow, ORC or CSV",
    "extension": "file formats of extensions are not supported; write Parquet, Arrow, ORC or CSV",
}

# settings a text file may state; with any other setting the file would be read differently from its meaning
_TEXT: Final[Mapping[str, tuple[object, ...]]] = {
    "field_delimiter": ("", ","),
    "quote": ("", '"'),
    "escape": ("", '"'),
    "header_lines_to_skip": (1,),
    "value_treated_as_null": ("",),
}


def convert_local_files(
    decoder: Decoder, message: Message, plan_path: PlanPath, base: Base, _: Scope | None
) -> Steps[ir.Relation]:
    decoder.check_extension(message, plan_path)
    items: list[ir.FileItem] = []
    for index, item in enumerate(message.items):
        at = plan_path.at("items", index)
        _check_path(decoder, item, at)
        _check_format(decoder, item, at)
        items.append(file_item(item))
    if not items:
        decoder.problems.add(plan_path / "items", "MISSING", "a read of local files must name at least one file")
        return poison.RELATION
    source = str(plan_path)
    return ir.LocalFiles(source=source, names=base.names, items=tuple(items), schema=base.schema, plan_path=source)
    yield


def file_item(item: Message) -> ir.FileItem:
    """The path, folder or glob, and the format's name, empty if the plan leaves the format to the file's own name. A
    file URI is taken apart; other URIs stay whole.
    """
    kind = item.WhichOneof("path_type")
    path = str(getattr(item, kind)) if kind else ""
    uri = _file_uri(path)
    if uri is not None:
        path = unquote(uri.path)
    file_format = FORMATS.get(item.WhichOneof("file_format"), "")
    return ir.FileItem(path=path, format=file_format, start=item.start, length=item.length)


def _check_path(decoder: Decoder, item: Message, plan_path: PlanPath) -> None:
    kind = item.WhichOneof("path_type")
    text = str(getattr(item, kind)) if kind else ""
    uri = _file_uri(text)
    if not text:
        decoder.problems.add(plan_path, "MISSING", "a path is missing here")
    elif uri is None and text.lower().startswith("file:"):
        decoder.problems.add(plan_path / str(kind), "BAD_PATH", f"{text[:200]!r} is no file URI: write file:///...")
    elif uri is not None and uri.netloc not in ("", "localhost"):
        problem = f"the file is on the host {uri.netloc!r}: a file URI must name a file of this machine"
        decoder.problems.add(plan_path / str(kind), "BAD_PATH", problem)


def _file_uri(text: str) -> SplitResult | None:
    """The parts of a file URI; None if it is another one, a path, or no URI at all."""
    try:
        return urlsplit(text) if text.lower().startswith("file:") else None
    except ValueError:
        return None


def _check_format(decoder: Decoder, item: Message, plan_path: PlanPath) -> None:
    kind = item.WhichOneof("file_format")
    if kind in REFUSED_FORMATS:
        decoder.problems.add(plan_path / kind, "UNSUPPORTED_FORMAT", REFUSED_FORMATS[kind])
    elif kind == "text":
        _check_text(decoder, item.text, plan_path / kind)


def _check_text(decoder: Decoder, options: Message, plan_path: PlanPath) -> None:
    for name, allowed in _TEXT.items():
        value = getattr(options, name)
        if value not in allowed:
            wanted = " or ".join(repr(text) for text in allowed if text != "") or "absent"
            problem = (
                f"{value!r} is not supported: text files are CSV with one header line, so the value must be {wanted}"
            )
            decoder.problems.add(plan_path / name, "UNSUPPORTED_FORMAT", problem)
