"""`tidegate serve`: runs a server until SIGTERM."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from . import options as common
from .serve_options import SIZES, add_options

if TYPE_CHECKING:
    from ...executor.runtime.ceilings import Ceilings
    from ...proto.service import Service
    from ...proto.values import TaskOptions
    from ..access.tokens import Tokens
    from ..serving import Server
    from ..setup.settings import Settings

_log = logging.getLogger("tidegate.server")

_CLOSING_SECONDS: Final = 3.0
_IDLE_SECONDS: Final = 86_400.0
_MEMORY: Final = ("memory_limit", "queue_bytes", "output_bytes")
_SMALLEST_PLAN: Final = """
{"extensionUrns": [{"extensionUrnAnchor": 1, "urn": "extension:io.substrait:functions_arithmetic"}],
 "extensions": [{"extensionFunction": {"extensionUrnReference": 1, "functionAnchor": 1, "name": "add:i64_i64"}}],
 "relations": [{"root": {"names": ["x"], "input": {"project": {
   "common": {"emit": {"outputMapping": [1]}},
   "input": {"read": {"namedTable": {"names": ["t"]},
     "baseSchema": {"names": ["x"], "struct": {"types": [{"i64": {"nullability": "NULLABILITY_NULLABLE"}}]}}}},
   "expressions": [{"scalarFunction": {"functionReference": 1, "arguments": [
     {"value": {"selection": {"directReference": {"structField": {"field": 0}}, "rootReference": {}}}},
     {"value": {"literal": {"i64": "1"}}}]}}]}}}}]}
"""
_SETTINGS: Final = (
    *("flight_listen", "flight_streams", "max_message_bytes", "max_calls", "streams_per_principal"),
    "connections_per_peer",
)


def register(commands: common.Subparsers) -> None:
    parser = commands.add_parser("serve", help="run a server", description="Run a server until SIGTERM or Ctrl-C.")
    add_options(parser)
    parser.set_defaults(command=serve, parser=parser)


def serve(options: argparse.Namespace) -> int:
    # gRPC reads this when it is imported. It would write lines for requests of strangers, before they are refused.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    import asyncio

    from ...executor.service.embedded import open_service
    from ...proto.allocator import tune_allocator
    from ...proto.arrow.pandas_import import leave_pandas_out
    from ...proto.errors import InvalidRequest
    from ...proto.values import TaskOptions
    from ..serving import serve as serve_until_ended
    from ..setup.log_lines import log_to_stderr
    from ..setup.registered import registered

    leave_pandas_out()
    log_to_stderr(options.log_level)
    roots = tuple(options.root or [Path.cwd()])
    _check_together(options)
    try:
        operators = registered(options.operators or ())
        tokens = _tokens(options, roots)
    except InvalidRequest as error:
        print(f"tidegate: {error.message}", file=sys.stderr)
        return 2
    tune_allocator()
    chosen = _given(options, (*SIZES, "max_pending_epochs", "idle_seconds", "epoch_seconds"))
    defaults = TaskOptions(**{"idle_seconds": _IDLE_SECONDS, **chosen})
    settings = _settings(options, defaults, tokens)
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
        ceilings=_ceilings(options, defaults, chosen),
        data=options.data,
    )
    try:
        _plan_once(service, defaults)
        ended = asyncio.run(serve_until_ended(service, settings, partial(_ready, options.data)))
    finally:
        _close(service)
    if not ended:
        _end_now(0)
    return 0


def _check_together(options: argparse.Namespace) -> None:
    """Refuse options that do not go with each other."""
    from ...proto.address import UNIX

    if (options.tls_cert is None) != (options.tls_key is None):
        options.parser.error("--tls-cert and --tls-key must be given together")
    if options.flight_listen and any(address.startswith(UNIX) for address in (options.listen, options.flight_listen)):
        options.parser.error(
            "--flight-listen must be HOST:PORT, and goes with --listen HOST:PORT; with --listen unix:PATH, Arrow "
            "Flight is at PATH.flight"
        )


def _tokens(options: argparse.Namespace, roots: tuple[Path, ...]) -> Tokens | None:
    """The tokens of principals, from whom the service's own folders must be apart."""
    from ..access.tokens import Tokens
    from ..setup.trust import check_apart

    if options.tokens is None:
        return None
    tokens = Tokens(options.tokens)
    spill = options.spill or Path(tempfile.gettempdir())
    check_apart(roots, {"--spill": spill, "--checkpoint-root": options.checkpoint_root, "--data": options.data})
    return tokens


def _settings(options: argparse.Namespace, defaults: TaskOptions, tokens: Tokens | None) -> Settings:
    from ..access.certificate import Certificate
    from ..setup.settings import Settings

    return Settings(
        listen=options.listen,
        defaults=defaults,
        tokens=tokens,
        certificate=Certificate(options.tls_cert, options.tls_key) if options.tls_cert is not None else None,
        flight=not options.no_flight,
        **_given(options, _SETTINGS),
    )


def _ceilings(options: argparse.Namespace, defaults: TaskOptions, chosen: Mapping[str, Any]) -> Ceilings:
    """The ceilings: the limits that the operator has `chosen`.

    Where the operator says nothing, principals may ask for no more than the defaults. Callers without a token may ask
    for no more memory than there is, unless Spark's machines, which may have more, compute.
    """
    from ...executor.runtime.ceilings import Ceilings
    from ...operators.core.machine import usable_memory

    trusts_all = options.tokens is None
    bounded = () if trusts_all else (*SIZES, "max_pending_epochs", "idle_seconds")
    machines = _MEMORY if trusts_all and not options.spark else ()
    half = None if trusts_all else max(1, options.max_tasks // 2)
    summed = {name: getattr(options, f"{name}_per_principal") for name in SIZES}
    return Ceilings(
        options={
            **{name: getattr(defaults, name) for name in bounded},
            **{name: max(getattr(defaults, name), usable_memory()) for name in machines},
            **chosen,
        },
        options_of_principal={name: most for name, most in summed.items() if most is not None},
        tasks=options.max_tasks,
        tasks_of_principal=options.max_tasks_per_principal or half,
    )


def _plan_once(service: Service, defaults: TaskOptions) -> None:
    """Plan the smallest plan, so that the first caller does not wait for what all plans need: a DuckDB instance of the
    default options, and the functions and messages of Substrait.
    """
    from ...proto.errors import TidegateError
    from ...proto.values import PlanBytes

    try:
        service.validate(PlanBytes(json=_SMALLEST_PLAN), defaults)
    except TidegateError as error:
        _log.warning("a plan cannot be planned now: %s", error)


def _close(service: Service) -> None:
    """Close the service. Where that takes too long, because a task's code cannot be interrupted, end the process."""
    gc.unfreeze()  # libraries that count their objects would report what is frozen as leaked
    closing = threading.Thread(target=service.close, name="tidegate-close", daemon=True)
    closing.start()
    closing.join(_CLOSING_SECONDS)
    if closing.is_alive():
        _log.error(
            "the code of a task cannot be interrupted: the process ends without waiting for the code (the next "
            "server removes the files left in the spill folder)"
        )
        _end_now(1)


def _end_now(code: int) -> NoReturn:
    """End the process although threads go on: taking the interpreter down under native code may crash."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(options, name) for name in names if getattr(options, name) is not None}


def _ready(data: Path | None, server: Server) -> None:
    flight = f"Arrow Flight is served on {server.flight_address}\n" if server.flight_address else ""
    ends = "tasks end with this server (--data DIR keeps them)\n" if data is None else ""
    # What the process has loaded stays. A collection that looked at it too would hold all calls up for 60 ms.
    gc.collect()
    gc.freeze()
    print(f"tidegate is listening on {server.address}\n{flight}{ends}", end="", flush=True)
