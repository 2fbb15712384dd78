"""The command line: `tidegate serve`, `run`, `explain`, `validate`, `tasks` and `data`.

Exit codes:

- 0: success.
- 1: an error, with one line on stderr.
- 2: wrong usage, with one line on stderr.
- 130: interrupted.
- 143: terminated before a server was ready, or while a command worked. The command has cleaned up.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from ...proto.errors import PlanError, TidegateError
from . import data, explain, run, serve, tasks, validate

_COMMANDS = (serve, run, explain, validate, tasks, data)


def main(arguments: Sequence[str] | None = None) -> int:
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    try:
        with _ending_on_sigterm():
            code: int = options.command(options)
        sys.stdout.flush()
    except TidegateError as error:
        return _failed(_line(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of the output is gone
        return 1
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        return _failed(f"{where}{error.strerror}" if error.strerror else str(error))
    except KeyboardInterrupt:
        return 130
    return code


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception inside the context, so that a partial file and a task on a server are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class _Parser(argparse.ArgumentParser):
    """Reports wrong usage in one line, instead of argparse's list of all options."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


class _Version(argparse.Action):
    """Prints the version. Only this action looks it up, so that other commands start faster."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from ...proto.version import __version__

        print(f"tidegate {__version__}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="tidegate", description="A query-plan service that speaks Substrait.")
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.register(commands)
    return parser


def _failed(line: str) -> int:
    print(f"tidegate: {line}", file=sys.stderr)
    return 1


def _line(error: TidegateError) -> str:
    if isinstance(error, PlanError):
        more = len(error.problems) - 1
        return f"{error.problems[0]}" + (f" (and {more} more: see tidegate validate)" if more else "")
    return " ".join(error.message.split())
