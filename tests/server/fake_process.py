"""A server over the fake engine in a process of its own: `python -m tests.server.fake_process REPEAT`.

Prints its address when ready; ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tidegate.proto.allocator import tune_allocator
from tidegate.server.serving import serve
from tidegate.server.setup.settings import Settings

from ..executor.fakes import FakeEngine
from .running import manager

TOP = Path(__file__).resolve().parents[2]


@dataclass
class ServerProcess:
    process: subprocess.Popen[str]
    address: str

    def memory(self, what: str = "VmHWM") -> int:
        """Bytes: the peak so far, or VmRSS for now."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith(what))

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


@contextlib.contextmanager
def server_process(*command: str, stderr: IO[str] | None = None, **environment: str) -> Iterator[ServerProcess]:
    """The process that `command` starts, once it has printed its address. Its log goes to `stderr`."""
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        cwd=TOP,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        yield ServerProcess(process, process.stdout.readline().split()[-1])
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    tune_allocator()
    with manager(FakeEngine(repeat=int(sys.argv[1]))) as backend:
        asyncio.run(
            serve(
                backend,
                Settings(listen="127.0.0.1:0", grace_seconds=1.0),
                lambda server: print(server.address, flush=True),
            )
        )


if __name__ == "__main__":
    main()
