"""`tidegate explain`: relations, pipelines and fragments of a plan."""

from __future__ import annotations

import argparse

from . import options as common


def register(commands: common.Subparsers) -> None:
    parser = commands.add_parser("explain", help="show how a plan would run", description="Show how a plan would run.")
    common.add_plan(parser)
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument("--table", metavar="NAME", action="append", default=[], help="this source is a static table")
    common.add_how(parser)
    common.add_server(parser)
    parser.set_defaults(command=explain)


def explain(options: argparse.Namespace) -> int:
    with common.client(options) as client:
        explanation = client.explain(options.plan, static_sources=options.table, **common.how(options))
    print(explanation.json if options.json else explanation.text)
    return 0
