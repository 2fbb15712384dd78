"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ...proto.address import is_address
from ...proto.errors import InvalidRequest

if TYPE_CHECKING:
    from ... import Client

Subparsers = Any  # argparse has no public name for what add_subparsers returns

_RECONNECT_SECONDS: Final = 20.0
DEFAULT_ADDRESS: Final = "127.0.0.1:50051"
LEAST_MESSAGE: Final = 64 << 10
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def size(text: str) -> int:
    """Bytes: 1048576, 64MiB, 4G."""
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text, re.IGNORECASE)
    if matched is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size such as 64MiB")
    count = int(float(matched[1]) * _UNITS[matched[2].upper()])
    if count >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text!r} is too large: a size must be below 2**63 bytes")
    return count


def message_size(text: str) -> int:
    """The most bytes of a message. A smaller limit lets no plan through, and gRPC counts the bytes in 32 bits."""
    count = size(text)
    if not LEAST_MESSAGE <= count < 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} must be a size from {LEAST_MESSAGE >> 10}KiB to just below 2GiB")
    return count


def at_least_one(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number from 1 on")
    if len(text) > 10 or int(text) >= 1 << 31:
        raise argparse.ArgumentTypeError(f"{text!r} must be at most {(1 << 31) - 1}")
    return int(text)


def folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a folder")
    return path


def address(text: str) -> str:
    """HOST:PORT or unix:PATH."""
    if is_address(text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} must have the form HOST:PORT, with a port up to 65535, or unix:PATH")


def named_path(text: str) -> tuple[str, str]:
    """NAME=PATH."""
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form NAME=PATH")
    return name, path


def named_column(text: str) -> tuple[str, str]:
    """SOURCE=COLUMN."""
    name, separator, column = text.partition("=")
    if not (name and separator and column):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form SOURCE=COLUMN")
    return name, column


def missing_columns(text: str) -> tuple[str, str]:
    """[NAME=]error or [NAME=]null. Without a name it holds for all sources and tables."""
    name, _, choice = text.rpartition("=")
    if choice not in ("error", "null"):
        raise argparse.ArgumentTypeError(f"{text!r} must be error, null, NAME=error or NAME=null")
    return name, choice


def add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "plan", metavar="PLAN", type=Path, help="a file with a Substrait plan; JSON if its name ends in .json"
    )


def add_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--parameter",
        metavar="NUMBER=VALUE",
        type=_parameter,
        action="append",
        default=[],
        help="the value of a dynamic parameter of the plan: JSON (5, 0.05, null, true), a date, a timestamp or a time, "
        "or any other text; write a text that looks like one of these in double quotes (1='\"5\"'); may be repeated",
    )


def _parameter(text: str) -> tuple[int, object]:
    from ...proto.encoding.plan_parameters import numbered

    number, equals, value = text.partition("=")
    try:
        if equals:
            return numbered(number, value)
    except InvalidRequest as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    raise argparse.ArgumentTypeError(f"{text!r} must have the form NUMBER=VALUE")


def parameters(options: argparse.Namespace) -> dict[int, object]:
    """The values by number. Refuses a number that is there twice."""
    values: dict[int, object] = {}
    for number, value in options.parameter:
        if number in values:
            options.parser.error(f"--parameter {number} has two values: leave one out")
        values[number] = value
    return values


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        metavar="HOST:PORT",
        type=address,
        help="use this server, HOST:PORT or unix:PATH (default: run in this process)",
    )
    add_access(parser)


def add_access(parser: argparse.ArgumentParser) -> None:
    """A token itself is no option, because everybody on a machine can read the command lines of its processes."""
    group = parser.add_argument_group("access to the server")
    group.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with the caller's token (default: the environment's TIDEGATE_TOKEN, or the file "
        "TIDEGATE_TOKEN_FILE)",
    )
    group.add_argument(
        "--tls",
        action="store_true",
        help="use TLS, and check the server's certificate with the certificate authorities that gRPC knows",
    )
    group.add_argument(
        "--tls-ca",
        metavar="FILE",
        help="use TLS, and check the server's certificate with the certificate authorities in this PEM file",
    )
    group.add_argument(
        "--plaintext-token", action="store_true", help="allow the token to go to another machine without TLS"
    )


def add_write_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--write-root",
        metavar="DIR",
        type=folder,
        help="the folder for tables that plans write, one subfolder each (default: plans that write are refused)",
    )


def add_mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode",
        choices=["per_epoch", "continuous"],
        default="per_epoch",
        help="per_epoch: each epoch gives its own result; continuous: each epoch gives the changes of the result, as "
        "rows with a _weight (default: %(default)s)",
    )


def add_checkpoint_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--checkpoint-root",
        metavar="DIR",
        type=folder,
        help="the folder for checkpoints, one subfolder for each task (default: no checkpoints are taken)",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="the folder where tasks are kept, so that the next server with this folder goes on with them (default: "
        "tasks end with the server)",
    )


def add_spark_staging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spark-staging",
        metavar="DIR",
        type=folder,
        help="a folder that the service and all of Spark's executors can read and write (default: the service's own "
        "folder, which only executors on this machine can use)",
    )


def add_executor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--executor",
        choices=["local", "spark"],
        default="local",
        help="run the channels on the service's threads, or on Spark (default: %(default)s)",
    )


def add_spark(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--spark",
        metavar="MASTER",
        help="without --server: Spark's master, local[N], spark://HOST:PORT or sc://HOST:PORT (default: local[*])",
    )
    add_spark_staging(parser)


def channels(text: str) -> int | Literal["auto"]:
    return "auto" if text == "auto" else at_least_one(text)


def add_how(parser: argparse.ArgumentParser) -> None:
    add_mode(parser)
    parser.add_argument(
        "--channels",
        metavar="N",
        type=channels,
        default=1,
        help="parallel channels, or auto: by the cores and the bytes of each epoch's input (default: %(default)s)",
    )
    parser.add_argument(
        "--broadcast",
        metavar="SOURCE",
        action="append",
        default=[],
        help="let every channel read this source whole; may be repeated",
    )
    parser.add_argument(
        "--parallel-threshold-seconds",
        metavar="SECONDS",
        type=float,
        help="use several channels only if they are estimated to save so much time (default: the server's, 0.075)",
    )
    parser.add_argument(
        "--spark-threshold-bytes",
        metavar="BYTES",
        type=int,
        help="with --executor spark: run an epoch with fewer bytes in the service; 0 runs every epoch on Spark "
        "(default: the server's, 1 MiB)",
    )
    parser.add_argument("--relaxed", action="store_true", help="promise the same rows in any order, and use every core")
    parser.add_argument(
        "--spill",
        choices=["auto", "ordered", "error"],
        default="auto",
        help="for joins larger than memory: auto runs the join again with its rows in order, ordered runs joins with "
        "their rows in order from the start, error fails the epoch (default: %(default)s)",
    )
    parser.add_argument(
        "--loops",
        choices=["auto", "general"],
        default="auto",
        help="auto runs a loop as one recursive statement if the statement gives the same rows; general runs every "
        "loop round by round (default: %(default)s)",
    )
    parser.add_argument(
        "--write-format",
        choices=["parquet", "arrow", "csv"],
        default="parquet",
        help="the file format of a table that the plan writes (default: %(default)s)",
    )


def how(options: argparse.Namespace) -> dict[str, Any]:
    determinism = "relaxed" if options.relaxed else "strict"
    thresholds = {name: getattr(options, name) for name in ("parallel_threshold_seconds", "spark_threshold_bytes")}
    return {
        "mode": options.mode,
        "channels": options.channels,
        "determinism": determinism,
        "spill": options.spill,
        "broadcast": options.broadcast,
        **{name: value for name, value in thresholds.items() if value is not None},
        "loops": options.loops,
        "write_format": options.write_format,
    }


def client(options: argparse.Namespace) -> Client:
    """A client of the server in `--server`, or of a service in this process."""
    from ... import connect, local
    from ...proto.arrow.pandas_import import leave_pandas_out

    leave_pandas_out()
    values = vars(options)
    if options.server:
        return connect(
            options.server,
            token_file=options.token_file,
            tls=options.tls_ca or options.tls or None,
            plaintext_token=options.plaintext_token,
            reconnect_seconds=_RECONNECT_SECONDS,
        )
    for name in ("token_file", "tls", "tls_ca", "plaintext_token"):
        if values[name]:
            raise InvalidRequest(f"--{name.replace('_', '-')} needs --server, which is not given")
    return local(
        write_root=values.get("write_root"),
        checkpoint_root=values.get("checkpoint_root"),
        spark_staging=values.get("spark_staging"),
    )
