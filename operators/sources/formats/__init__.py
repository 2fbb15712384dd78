"""The file formats of splits, by name. `register` adds one; `split_pieces` and `scan` look formats up here."""

from __future__ import annotations

from ....proto.compressed_files import without_codec
from ....proto.errors import InvalidRequest
from .arrow import Arrow, Inline
from .csv import Csv
from .format import Format, Reader
from .json import Json
from .orc import Orc
from .parquet import Parquet

_FORMATS: dict[str, Format] = {}


def register(format_: Format) -> None:
    """Register a format under its name and its endings."""
    _FORMATS[format_.name] = format_


def known() -> tuple[str, ...]:
    """The names of formats that files can have and users can name."""
    return tuple(sorted(name for name, format_ in _FORMATS.items() if format_.endings))


def format_named(name: str) -> Format:
    """The format of this name. Raises `InvalidRequest`, which lists all formats, for an unknown name."""
    format_ = _FORMATS.get(name.lower())
    if format_ is None:
        raise InvalidRequest(f"unknown format {name!r}; known are {', '.join(known())}", reason="UNKNOWN_FORMAT")
    return format_


def format_of(path: str) -> Format:
    """The format that a file's ending tells. Raises `InvalidRequest` where the ending tells none."""
    plain, codec = without_codec(path.lower())
    for format_ in _FORMATS.values():
        if plain.endswith(format_.endings) and (codec is None or format_.compressed):
            return format_
    raise InvalidRequest(
        f"the ending of {path} does not tell its format: name a format of {', '.join(known())}", reason="UNKNOWN_FORMAT"
    )


for _format in (Parquet(), Arrow(), Orc(), Csv(), Json(), Inline()):
    register(_format)

__all__ = ["Format", "Reader", "format_named", "format_of", "known", "register"]
