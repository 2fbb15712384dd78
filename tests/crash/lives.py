"""Servers that are killed and started again at one address."""

from __future__ import annotations

import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from .points import POINTS, Point

TOP: Final = Path(__file__).resolve().parents[2]
INSTANT: Final = "at a random instant"
PATIENCE: Final = 60.0
"""Seconds in which a server comes to a point that is waited for."""
_LOOK: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The end of one life of a server: at the `hit`-th time that it comes to a point, or else once it has worked for
    some `seconds`, however busy the machine is.
    """

    point: int
    hit: int
    seconds: float

    @classmethod
    def of(cls, luck: random.Random, points: Sequence[Point]) -> Self:
        point, hit = luck.choice(points), luck.choice((1, 1, 2, 3, luck.randint(4, 12)))
        seconds = luck.uniform(0.02, 0.5) if luck.random() < 0.2 else 1.0
        return cls(point=POINTS.index(point), hit=hit, seconds=seconds)


class Forking:
    """A process that starts servers fast, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.forking"],
            cwd=TOP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, arguments: Sequence[str], log: Path, crash: Crash | None) -> int:
        """Start a server; its process. `status` waits until it has ended."""
        at = {} if crash is None else {"point": crash.point, "hit": crash.hit}
        command = {"arguments": arguments, "log": str(log), **at}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def status(self) -> int:
        return self._answer()

    def _answer(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lives:
    """A server at one address, started again after each crash. `died` names the crashes that came to be."""

    def __init__(self, forking: Forking, folder: Path, crashes: Sequence[Crash], *flags: str) -> None:
        self._forking = forking
        self._log = folder / "log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        (folder / "tables").mkdir()
        self._arguments = ["serve", "--listen", self.address, *flags]
        for option in ("data", "spill"):
            self._arguments += [f"--{option}", str(folder / option)]
        self._arguments += ["--write-root", str(folder / "tables"), "--root", str(folder)]
        self._crashes = list(crashes)
        self._ended = self._told_to_end = self._killed = False
        self._process: int | None = None
        """The server that runs. The system may give the number of one that has ended to another process."""
        self.died: list[str] = []
        self.wrong: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended:
            crash = self._crashes.pop(0) if self._crashes else None
            self._told_to_end = self._killed = False
            self._process = process = self._forking.start(self._arguments, self._log, crash)
            came = crash is not None and self._ends_within(process, crash.seconds)
            if self._ended:
                self.kill_one()
            status = self._forking.status()
            self._process = None
            if status != (0 if self._told_to_end else -signal.SIGKILL):
                self.wrong.append(f"a server has ended with status {status}: {self._log.read_text()[-3_000:]}")
                return
            if crash is not None and not self._ended:
                self.died.append(POINTS[crash.point].name if came and not self._killed else INSTANT)

    def _ends_within(self, process: int, seconds: float) -> bool:
        """True if the process ends by itself before it has worked for so long. It is killed otherwise."""
        latest = time.monotonic() + PATIENCE
        try:
            watched = os.pidfd_open(process)
        except ProcessLookupError:
            return True
        try:
            while worked_seconds(process) < seconds and time.monotonic() < latest:
                if select.select([watched], [], [], _LOOK)[0]:
                    return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        finally:
            os.close(watched)
        self.kill_one()
        return False

    def end_one(self) -> None:
        """Tell the server to end; the next one starts then."""
        self._told_to_end = True
        self._send(signal.SIGTERM)

    def kill_one(self) -> None:
        """Kill the server; the next one starts then."""
        self._send(signal.SIGKILL)

    def kill_first(self) -> None:
        """Kill the first server if it still runs, and was to come to a point."""
        if not self.died:
            self._killed = True
            self.kill_one()

    def _send(self, number: signal.Signals) -> None:
        process = self._process
        if process is not None:
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def close(self) -> None:
        self._ended, self._told_to_end = True, False
        self.kill_one()
        self._thread.join()
        log = self._log.read_text() if self._log.exists() else ""
        if "Traceback" in log or "a bug in" in log:
            self.wrong.append(f"the log has an error: {log[-3_000:]}")


def worked_seconds(process: int) -> float:
    """The time that a process has had of a processor."""
    _, _, after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")
    user, system = after_name.split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
