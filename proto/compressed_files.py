"""Files that are compressed as a whole, which the endings of their names tell."""

from __future__ import annotations

from typing import Final

_CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4", ".br": "brotli"}


def without_codec(path: str) -> tuple[str, str | None]:
    """The path without the ending of a codec, and Arrow's name of the codec; None where there is none."""
    ending = next((ending for ending in _CODECS if path.lower().endswith(ending)), "")
    return path[: len(path) - len(ending)], _CODECS.get(ending)
