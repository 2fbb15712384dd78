"""A process that starts servers by forking, with all modules imported: `python -m tests.crash.forking`.

Each line of its input is a command: the arguments of `tidegate`, and the point to be killed at. It answers with the id
of the server's process, and with its exit status once it has ended.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

import tidegate.executor.service.embedded
import tidegate.executor.service.plan_engine
import tidegate.server.cli.serve
import tidegate.server.serving  # noqa: F401
from tidegate.server import cli

from .points import POINTS, kill_at


def main() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        process = os.fork()
        if not process:
            serve(command)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def serve(command: dict[str, object]) -> None:
    """Be the server. Its output goes to a file, because the parent's output has the answers."""
    code = 1
    try:
        log = os.open(str(command["log"]), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(number, target)
        if "point" in command:
            kill_at(POINTS[int(str(command["point"]))], int(str(command["hit"])))
        code = cli.main(command["arguments"])  # type: ignore[arg-type]
    except BaseException:  # noqa: BLE001  # the process ends here, whatever it is
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
