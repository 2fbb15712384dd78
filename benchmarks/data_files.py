"""Files of data that benchmarks make once, and then find."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def whole(path: Path, write: Callable[[Path], None]) -> Path:
    """The file or folder at a path. Written under another name first, so that what is there is whole."""
    if not path.exists():
        partial = path.with_name(f"{path.name}.partial")
        write(partial)
        partial.rename(path)
    return path
