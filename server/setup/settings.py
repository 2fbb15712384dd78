"""A server's settings: the command line's options and their defaults."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...proto.values import MIB, TaskOptions
from ..access.certificate import Certificate
from ..access.tokens import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a server.

    - `listen`: HOST:PORT (port 0: any free one) or unix:PATH
    - `roots`: the folders whose files may be read
    - `tokens`: only callers with one of them may call, and the backend tells its callers apart
    - `certificate`: the server speaks TLS
    - `flight`: False for no Arrow Flight
    - `flight_listen`: the address of Arrow Flight. If it is not given, and `listen` is on this machine: a free port of
      the same host, or a socket beside that of `listen`
    - `flight_streams`: the most streams of Arrow Flight, each of which has a thread
    """

    listen: str = "127.0.0.1:50051"
    roots: tuple[Path, ...] = field(default_factory=lambda: (Path.cwd(),))
    spill_directory: Path | None = None
    threads: int | None = None
    tokens: Tokens | None = None
    certificate: Certificate | None = None
    flight: bool = True
    flight_listen: str | None = None
    flight_streams: int = 64
    max_message_bytes: int = 64 * MIB
    max_calls: int = 4096
    streams_per_principal: int = 2048
    connections_per_peer: int = 512
    planning_calls: int = 4
    feeding_calls: int = 8
    grace_seconds: float = 3.0
    defaults: TaskOptions = field(default_factory=TaskOptions)
