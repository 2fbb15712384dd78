"""`tidegate validate`: lists every problem of a plan."""

from __future__ import annotations

import argparse

from . import options as common


def register(commands: common.Subparsers) -> None:
    what = "List every problem of a plan, and its warnings. The exit code is 1 if there are problems."
    parser = commands.add_parser("validate", help="list a plan's problems", description=what)
    common.add_plan(parser)
    common.add_parameters(parser)
    common.add_mode(parser)
    common.add_server(parser)
    parser.set_defaults(command=validate, parser=parser)


def validate(options: argparse.Namespace) -> int:
    parameters = common.parameters(options)
    with common.client(options) as client:
        problems = client.validate(options.plan, parameters=parameters, mode=options.mode)
        warnings = client.warnings(options.plan, parameters=parameters, mode=options.mode)
    for warning in warnings:
        print(f"warning: {warning}")
    for problem in problems:
        print(f"{problem} [{problem.reason}]")
    if not problems:
        print("the plan can run")
    return 1 if problems else 0
