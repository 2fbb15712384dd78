"""How a server is set up; the command line's options and their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..proto.values import MIB, TaskOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`listen` is HOST:PORT (port 0: any free one) or unix:PATH; `roots` are the folders whose files may be read."""

    listen: str = "127.0.0.1:50051"
    roots: tuple[Path, ...] = field(default_factory=lambda: (Path.cwd(),))
    spill_directory: Path | None = None
    threads: int | None = None
    max_message_bytes: int = 64 * MIB
    max_calls: int = 4096
    blocking_calls: int = 8
    grace_seconds: float = 10.0
    defaults: TaskOptions = field(default_factory=TaskOptions)
