"""`tidegate explain`: prints the relations, pipelines and fragments of a plan."""

from __future__ import annotations

import argparse

from . import options as common


def register(commands: common.Subparsers) -> None:
    parser = commands.add_parser(
        "explain",
        help="show how a plan would run",
        description="Show how a plan would run: its relations, pipelines and fragments.",
    )
    common.add_plan(parser)
    common.add_parameters(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    parser.add_argument(
        "--table",
        metavar="NAME",
        action="append",
        default=[],
        help="treat this source as a static table; may be repeated",
    )
    parser.add_argument(
        "--rows",
        metavar="NAME=N",
        type=_rows,
        action="append",
        default=[],
        help="with --channels: the number of rows of this source (default: 10 million); may be repeated",
    )
    common.add_how(parser)
    common.add_executor(parser)
    common.add_server(parser)
    parser.set_defaults(command=explain, parser=parser)


def explain(options: argparse.Namespace) -> int:
    with common.client(options) as client:
        rows, how = dict(options.rows), {**common.how(options), "executor": options.executor}
        parameters = common.parameters(options)
        explanation = client.explain(
            options.plan, static_sources=options.table, rows=rows, parameters=parameters, **how
        )
    print(explanation.json if options.json else explanation.text)
    return 0


def _rows(text: str) -> tuple[str, int]:
    name, equals, count = text.rpartition("=")
    if not (name and equals and count.isascii() and count.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} must have the form NAME=N, where N is a number of rows")
    return name, int(count)
