"""Programs in processes of their own, forked from one that has imported Tidegate: each import takes a second of a core.

Run as a program it is the process that they are forked from. Each line of its input is a module to run, its arguments
and a folder, which has the program's input, and gets its output. It answers with the program's process, and with its
exit status once that has ended. It starts no threads.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final

TOP: Final = Path(__file__).resolve().parents[1]
_FILES: Final = ("stdin", "stdout", "stderr")


def run(
    module: str, *arguments: object, stdin: str = "", seconds: float | None = None
) -> subprocess.CompletedProcess[str]:
    """The end of `python -m module arguments`, run in the project's top folder, without pandas until it imports it."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "stdin").write_text(stdin)
        program = {"module": module, "arguments": list(map(str, arguments)), "folder": temporary}
        status = _origin().end_of(program, seconds)
        stdout, stderr = ((folder / name).read_text(errors="replace") for name in _FILES[1:])
    return subprocess.CompletedProcess([module, *arguments], status, stdout, stderr)


class _Origin:
    """The process that others are forked from. It ends with this one."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self._process = subprocess.Popen(command, cwd=TOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._close)

    def end_of(self, program: dict[str, Any], seconds: float | None) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(program), file=self._process.stdin, flush=True)
        forked = int(self._process.stdout.readline())
        late = not select.select([self._process.stdout], [], [], seconds)[0]
        if late:
            os.kill(forked, signal.SIGKILL)
        status = int(self._process.stdout.readline())
        if late:
            raise subprocess.TimeoutExpired(program["module"], seconds or 0)
        return status

    def _close(self) -> None:
        self._process.communicate()


_origin: Final = cache(_Origin)


def _main() -> None:
    from tidegate.proto.arrow.pandas_import import leave_pandas_out

    leave_pandas_out()
    import tidegate.executor.service.embedded
    import tidegate.executor.service.plan_engine  # noqa: F401

    for line in sys.stdin:
        program = json.loads(line)
        process = os.fork()
        if not process:
            _be(program)
            return  # and end as any program does
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _be(program: dict[str, Any]) -> None:
    for number, name in enumerate(_FILES):
        flags = os.O_CREAT | os.O_WRONLY if number else os.O_RDONLY
        os.dup2(os.open(os.path.join(program["folder"], name), flags), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # the one before has read ahead
    sys.argv[1:] = program["arguments"]
    runpy.run_module(program["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
