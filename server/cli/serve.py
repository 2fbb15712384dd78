"""`tidegate serve`: runs a server until SIGTERM."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import options as common

if TYPE_CHECKING:
    from ...proto.service import Service
    from ..serving import Server

_log = logging.getLogger("tidegate.server")

_CLOSING_SECONDS: Final = 5.0
_IDLE_SECONDS: Final = 86_400.0
_SETTINGS: Final = (
    *("flight_listen", "flight_streams", "max_message_bytes", "max_calls", "streams_per_principal"),
    "connections_per_peer",
)
_SIZES: Final = {
    "memory_limit": "bytes of memory of the engine (default: 4GiB)",
    "queue_bytes": "bytes of inline splits in memory before the splits spill (default: 64MiB)",
    "output_bytes": "bytes of unacknowledged output in memory before the output spills (default: 64MiB)",
    "spill_quota": "bytes in spill files, which have the data that does not fit in memory (default: 4GiB)",
    "write_quota": "bytes of the files that the task writes to its table (default: 64GiB)",
}
"""The help of each limit of bytes."""


def register(commands: common.Subparsers) -> None:
    parser = commands.add_parser("serve", help="run a server", description="Run a server until SIGTERM or Ctrl-C.")
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
    parser.add_argument(
        "--threads",
        metavar="N",
        type=common.at_least_one,
        help="the number of threads that run tasks (default: one per core, at least four)",
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
    parser.add_argument(
        "--log-level", choices=["debug", "info", "warning", "error"], default="info", help="default: %(default)s"
    )
    limits = parser.add_argument_group("limits of a task, unless its creator asks for less (a SIZE is like 64MiB)")
    for name, bounds in _SIZES.items():
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
    for name in _SIZES:
        limits.add_argument(
            f"--{name.replace('_', '-')}-per-principal",
            metavar="SIZE",
            type=common.size,
            help=f"--{name.replace('_', '-')} of all tasks of one principal together (default: no limit)",
        )
    calls = parser.add_argument_group("limits of calls")
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
    parser.set_defaults(command=serve, parser=parser)


def serve(options: argparse.Namespace) -> int:
    import asyncio

    from ...executor.runtime.ceilings import Ceilings
    from ...executor.service.embedded import open_service
    from ...proto.address import UNIX
    from ...proto.allocator import tune_allocator
    from ...proto.errors import InvalidRequest
    from ...proto.values import TaskOptions
    from ..access.certificate import Certificate
    from ..access.tokens import Tokens
    from ..serving import serve as serve_until_ended
    from ..setup.log_lines import log_to_stderr
    from ..setup.registered import registered
    from ..setup.settings import Settings
    from ..setup.trust import check_apart

    log_to_stderr(options.log_level)
    roots = tuple(options.root or [Path.cwd()])
    if (options.tls_cert is None) != (options.tls_key is None):
        options.parser.error("--tls-cert and --tls-key must be given together")
    if options.flight_listen and any(address.startswith(UNIX) for address in (options.listen, options.flight_listen)):
        options.parser.error(
            "--flight-listen must be HOST:PORT, and goes with --listen HOST:PORT; with --listen unix:PATH, Arrow "
            "Flight is at PATH.flight"
        )
    try:
        operators = registered(options.operators or ())
        tokens = Tokens(options.tokens) if options.tokens is not None else None
        if tokens is not None:
            spill = options.spill or Path(tempfile.gettempdir())
            check_apart(roots, {"--spill": spill, "--checkpoint-root": options.checkpoint_root, "--data": options.data})
    except InvalidRequest as error:
        print(f"tidegate: {error.message}", file=sys.stderr)
        return 2
    tune_allocator()
    chosen = _given(options, (*_SIZES, "max_pending_epochs", "idle_seconds", "epoch_seconds"))
    defaults = TaskOptions(**{"idle_seconds": _IDLE_SECONDS, **chosen})
    # A principal may ask for no more than the defaults, where the operator says nothing.
    bounded = (*_SIZES, "max_pending_epochs", "idle_seconds") if tokens is not None else ()
    half = max(1, options.max_tasks // 2) if tokens is not None else None
    summed = {name: getattr(options, f"{name}_per_principal") for name in _SIZES}
    ceilings = Ceilings(
        options={**{name: getattr(defaults, name) for name in bounded}, **chosen},
        options_of_principal={name: most for name, most in summed.items() if most is not None},
        tasks=options.max_tasks,
        tasks_of_principal=options.max_tasks_per_principal or half,
    )
    settings = Settings(
        listen=options.listen,
        defaults=defaults,
        tokens=tokens,
        certificate=Certificate(options.tls_cert, options.tls_key) if options.tls_cert is not None else None,
        flight=not options.no_flight,
        **_given(options, _SETTINGS),
    )
    service = open_service(
        roots=roots,
        spill_directory=options.spill,
        threads=options.threads,
        defaults=defaults,
        side="on the server",
        write_root=options.write_root,
        checkpoint_root=options.checkpoint_root,
        databases=dict(options.database or ()),
        operators=operators,
        spark=options.spark,
        spark_staging=options.spark_staging,
        principals=tokens is not None,
        ceilings=ceilings,
        data=options.data,
    )
    try:
        asyncio.run(serve_until_ended(service, settings, partial(_ready, options.data)))
    finally:
        _close(service)
    return 0


def _close(service: Service) -> None:
    """Close the service. Where that takes too long, because a task's code cannot be interrupted, end the process."""
    closing = threading.Thread(target=service.close, name="tidegate-close", daemon=True)
    closing.start()
    closing.join(_CLOSING_SECONDS)
    if closing.is_alive():
        _log.error(
            "the code of a task cannot be interrupted: the process ends without waiting for the code (the next "
            "server removes the files left in the spill folder)"
        )
        logging.shutdown()
        sys.stdout.flush()
        os._exit(1)


def _database(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not (name and equals and Path(path).is_file()):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=FILE, with a file that exists")
    return name, Path(path)


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _ready(data: Path | None, server: Server) -> None:
    flight = f"Arrow Flight is served on {server.flight_address}\n" if server.flight_address else ""
    ends = "tasks end with this server (--data DIR keeps them)\n" if data is None else ""
    print(f"tidegate is listening on {server.address}\n{flight}{ends}", end="", flush=True)
