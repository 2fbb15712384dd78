"""The options of `tidegate serve`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from . import options as common

SIZES: Final = {
    "memory_limit": "bytes of memory of the engine (default: 4GiB)",
    "queue_bytes": "bytes of inline splits in memory before the splits spill (default: 64MiB)",
    "output_bytes": "bytes of unacknowledged output in memory before the output spills (default: 64MiB)",
    "spill_quota": "bytes in spill files, which have the data that does not fit in memory (default: 4GiB)",
    "write_quota": "bytes of the files that the task writes to each of its tables (default: 64GiB)",
}
"""The help of each limit of bytes."""


def add_options(parser: argparse.ArgumentParser) -> None:
    _add_places(parser)
    _add_engines(parser)
    _add_access(parser)
    parser.add_argument(
        "--log-level",
        choices=["debug", "info", "warning", "error"],
        default="info",
        help="the least severe lines of the log (default: %(default)s)",
    )
    limits = parser.add_argument_group(
        "limits of tasks (what you set is the most that the creator of a task may ask for; a SIZE is like 64MiB)"
    )
    _add_limits_of_a_task(limits)
    _add_limits_of_all_tasks(limits)
    _add_limits_of_calls(parser.add_argument_group("limits of calls"))


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        type=common.address,
        default=common.DEFAULT_ADDRESS,
        help="the address to serve on, or unix:PATH for a socket; port 0 takes a free port; the server prints the "
        "address when it is ready (default: %(default)s)",
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=common.folder,
        action="append",
        help="a folder whose files plans and splits may read; may be repeated (default: the working directory)",
    )
    parser.add_argument(
        "--flight-listen",
        metavar="HOST:PORT",
        type=common.address,
        help="the address of Arrow Flight, which serves large results; clients find it by themselves (default: a free "
        "port of --listen's host if that host is on this machine, otherwise none; for unix:PATH, PATH.flight)",
    )
    parser.add_argument("--no-flight", action="store_true", help="serve results over gRPC only, which is slower")
    common.add_write_root(parser)
    common.add_checkpoint_root(parser)
    common.add_data(parser)
    parser.add_argument(
        "--spill",
        metavar="DIR",
        type=Path,
        help="the folder for data that does not fit in memory (default: a temporary folder)",
    )


def _add_engines(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        metavar="N",
        type=common.at_least_one,
        help="the number of threads that run tasks (default: one for each CPU that the process may use, at least four)",
    )
    parser.add_argument(
        "--database",
        metavar="NAME=FILE",
        type=_database,
        action="append",
        help="a SQLite file, and the name under which plans may look up rows in the file; may be repeated",
    )
    parser.add_argument(
        "--operators",
        metavar="MODULE[:NAME]",
        action="append",
        help="import a module of yours, whose mapping NAME (default: OPERATORS) has the operators that plans may "
        "name; may be repeated",
    )
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        default="",
        help='the master of the Spark that runs tasks with executor="spark": local[N], spark://HOST:PORT, sc://HOST:PORT',
    )
    common.add_spark_staging(parser)


def _add_access(parser: argparse.ArgumentParser) -> None:
    trust = parser.add_argument_group("access (default: every caller that reaches the address)")
    trust.add_argument(
        "--tokens",
        metavar="FILE",
        type=Path,
        help="a file with a line for each principal: its name, and its token or sha256:DIGEST; the server reads it "
        "again when it changes",
    )
    trust.add_argument("--tls-cert", metavar="FILE", type=Path, help="a PEM file: serve over TLS with this certificate")
    trust.add_argument("--tls-key", metavar="FILE", type=Path, help="a PEM file: the certificate's private key")


def _add_limits_of_a_task(limits: argparse._ArgumentGroup) -> None:
    for name, bounds in SIZES.items():
        limits.add_argument(f"--{name.replace('_', '-')}", metavar="SIZE", type=common.size, help=bounds)
    limits.add_argument(
        "--max-pending-epochs",
        metavar="N",
        type=common.at_least_one,
        help="sealed epochs whose barrier has not been read (default: 8)",
    )
    limits.add_argument(
        "--idle-seconds",
        metavar="S",
        type=float,
        help="delete a task that has had no call for this time (default: a day)",
    )
    limits.add_argument(
        "--epoch-seconds",
        metavar="S",
        type=float,
        help="fail an epoch that takes more than this time of work (default: no limit)",
    )


def _add_limits_of_all_tasks(limits: argparse._ArgumentGroup) -> None:
    limits.add_argument(
        "--max-tasks",
        metavar="N",
        type=common.at_least_one,
        default=1000,
        help="tasks of all callers together (default: %(default)s)",
    )
    limits.add_argument(
        "--max-tasks-per-principal",
        metavar="N",
        type=common.at_least_one,
        help="tasks of each principal (default: half of --max-tasks with --tokens)",
    )
    for name in SIZES:
        limits.add_argument(
            f"--{name.replace('_', '-')}-per-principal",
            metavar="SIZE",
            type=common.size,
            help=f"--{name.replace('_', '-')} of all tasks of one principal together (default: no limit)",
        )


def _add_limits_of_calls(calls: argparse._ArgumentGroup) -> None:
    calls.add_argument(
        "--max-message-bytes", metavar="SIZE", type=common.message_size, help="bytes of one request (default: 64MiB)"
    )
    calls.add_argument(
        "--max-calls", metavar="N", type=common.at_least_one, help="calls at the same time (default: 4096)"
    )
    calls.add_argument(
        "--streams-per-principal",
        metavar="N",
        type=common.at_least_one,
        help="calls of each principal, at the same time, that wait for results, send them or feed (default: 2048)",
    )
    calls.add_argument(
        "--connections-per-peer",
        metavar="N",
        type=common.at_least_one,
        help="connections from one address at the same time; the server closes newer ones (default: 512)",
    )
    calls.add_argument(
        "--flight-streams",
        metavar="N",
        type=common.at_least_one,
        help="streams over Arrow Flight at the same time, a thread each (default: 64)",
    )


def _database(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and Path(path).is_file()):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=FILE, with a file that exists")
    return name, Path(path)
