"""Plans of several producers and rows that fit them, damaged by structure: is each answered, and none with a bug?

Each request makes a task of a plan and runs epochs of it. The plan may have parts of other plans, other types, and
numbers at the ends of their ranges; the rows may have such numbers, nulls, or other columns. `make attack` sends
20,000.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

import benchmarks.plan_growth as growth
import tidegate
from benchmarks import loop_plans

from ..conformance import operator_queries, tpch
from ..planner.decode.plans import encode, plan_class
from .attack import Findings, is_met, report
from .fake_process import server_process
from .made_rows import made_rows

AT_ONCE: Final = 4
_SERVE: Final = (
    *("tidegate.server.cli", "serve", "--listen=127.0.0.1:0", "--no-flight", "--log-level=error"),
    *("--memory-limit=256MiB", "--epoch-seconds=5", "--idle-seconds=60"),
)
_BUGS: Final = ("", "INTERNAL", "UNAVAILABLE")
_SMALL: Final = 3
_ROUND: Final = 500
"""Plans from one look at the server's memory to the next."""
_PARTS: Final = 60
"""The parts of a kind that plans are damaged with."""
_ENDS: Final = {
    FieldDescriptor.CPPTYPE_INT32: (0, 1, -1, -(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (0, 1, -1, -(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 1, 2, 7, 2**31, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 1, 2**63, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: (0.0, -0.0, 1e308, float("nan"), float("-inf")),
    FieldDescriptor.CPPTYPE_FLOAT: (0.0, -0.0, 3e38, float("nan"), float("-inf")),
}
_TEXTS: Final = ("", "l", "sum", "add:i64_i64", "\0", "é" * 50, "%_\\", "(", "x" * 3_000)
_OPTIONS: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"mode": "continuous"},
    {"channels": 2, "parallel_threshold_seconds": 0},
    {"determinism": "relaxed"},
    {"mode": "continuous", "channels": 2},
)


def corpus() -> Sequence[bytes]:
    """Plans that run: queries of five producers, loops, operators of ours, and a small plan of each shape."""
    queries = [path.read_bytes() for path in sorted(tpch.PLANS.rglob("*.bin"))]
    shapes = [growth.plan(shape, _SMALL) for name, shape in growth.SHAPES.items() if not name.startswith("continuous")]
    sorted_plans = operator_queries.over_sorted().values()
    ours = [operator_queries.unnested(), operator_queries.static_join()]
    loops = [loop_plans.components(), loop_plans.reachable().plan, loop_plans.closure().plan]
    return [*queries, *ours, *loops, *(encode(json.loads(text)) for text in (*shapes, *sorted_plans))]


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                yield from _messages(inner)


def _copy(value: Any) -> Any:
    return type(value).FromString(value.SerializeToString()) if isinstance(value, Message) else value


class PlanAttack:
    """Damaged plans by a seed, and what rows they are fed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._plans = corpus()
        self._parts: dict[str, list[bytes]] = defaultdict(list)
        draw = random.Random(seed)
        for plan in self._plans:
            for part in _messages(plan_class().FromString(plan)):
                known = self._parts[part.DESCRIPTOR.full_name]
                data = part.SerializeToString()
                if len(known) < _PARTS:
                    known.append(data)
                elif draw.random() < 0.05:
                    known[draw.randrange(_PARTS)] = data

    def plan(self, number: int) -> tuple[bytes, random.Random]:
        """The plan with this number, and what draws its rows."""
        draw = random.Random(f"{self._seed}/{number}")
        message = plan_class().FromString(draw.choice(self._plans))
        for _ in range(draw.choice((0, 1, 1, 2, 4))):
            self._damage(message, draw)
            message = plan_class().FromString(message.SerializeToString())
        return message.SerializeToString(), draw

    def _damage(self, plan: Message, draw: random.Random) -> None:
        parts = list(_messages(plan))
        message = draw.choice(parts)
        same = [part for part in parts if part.DESCRIPTOR is message.DESCRIPTOR and part is not message]
        others = self._parts[message.DESCRIPTOR.full_name]
        fields = [field for field, _ in message.ListFields()]
        match draw.randrange(6):
            case 0 if same:
                message.CopyFrom(type(message).FromString(draw.choice(same).SerializeToString()))
            case 1 if others:
                message.CopyFrom(type(message).FromString(draw.choice(others)))
            case 2 if fields:
                self._repeat(message, draw.choice(fields), draw)
            case _ if message.DESCRIPTOR.fields:
                self._set(message, draw.choice(fields or message.DESCRIPTOR.fields), draw)
            case _:
                message.Clear()

    @staticmethod
    def _repeat(message: Message, field: FieldDescriptor, draw: random.Random) -> None:
        if not field.is_repeated:
            message.ClearField(field.name)
            return
        values = [_copy(value) for value in getattr(message, field.name)]
        changed = draw.choice((values[::-1], values[:-1], values + values[:1], draw.sample(values, len(values))))
        message.ClearField(field.name)
        getattr(message, field.name).extend(changed)

    def _set(self, message: Message, field: FieldDescriptor, draw: random.Random) -> None:
        if field.message_type is not None:
            others = self._parts[field.message_type.full_name]
            value = getattr(message, field.name)
            if others and not field.is_repeated:
                value.CopyFrom(type(value).FromString(draw.choice(others)))
            elif others and not field.message_type.GetOptions().map_entry:
                value.add().MergeFromString(draw.choice(others))
            return
        value = _value(field, draw)
        if field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _value(field: FieldDescriptor, draw: random.Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_BYTES:
            return draw.choice((b"", b"\0" * 16, b"\xff" * 16, draw.randbytes(7)))
        case FieldDescriptor.CPPTYPE_STRING:
            return draw.choice(_TEXTS)
        case FieldDescriptor.CPPTYPE_BOOL:
            return draw.random() < 0.5
        case FieldDescriptor.CPPTYPE_ENUM:
            return draw.choice((*field.enum_type.values_by_number, 99))
        case kind:
            return draw.choice(_ENDS[kind])


def ended(client: tidegate.Client, attack: PlanAttack, number: int) -> str:
    """How the request with this number has ended: `ok`, its reason, or the bug that it has met."""
    plan, draw = attack.plan(number)
    try:
        with client.create_task(plan, **draw.choice(_OPTIONS)) as task:
            sources = {source.name: source.schema for source in task.info().sources}
            for _ in range(draw.choice((1, 1, 2))):
                task.run_epoch({name: made_rows(schema, draw) for name, schema in sources.items()}).table()
    except tidegate.TidegateError as error:
        problems = error.problems if isinstance(error, tidegate.PlanError) else [error]
        reasons = [problem.reason for problem in problems]
        bugs = [f"{reason or 'no reason'}: {error}" for reason in reasons if reason in _BUGS]
        return f"BUG {number} {bugs[0]}" if bugs else reasons[0]
    except (pa.ArrowException, ValueError, TypeError, KeyError, AssertionError):
        return f"BUG {number} {traceback.format_exc()}"
    return "ok"


def attack_plans(requests: int, seed: int, first: int = 0) -> Findings:
    """Send the requests to a server in a process of its own."""
    attack, findings = PlanAttack(seed), Findings()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with (
            log.open("w") as errors,
            server_process(*_SERVE, f"--spill={folder}/spill", stderr=errors, PYTHONFAULTHANDLER="1") as server,
            tidegate.connect(server.address, reconnect_seconds=0.0) as client,
            ThreadPoolExecutor(AT_ONCE) as callers,
        ):
            for start in range(first, first + requests, _ROUND):
                numbers = range(start, min(start + _ROUND, first + requests))
                for end in callers.map(partial(ended, client, attack), numbers):
                    _note(end, findings)
                if server.process.poll() is None:
                    findings.memory.append(server.memory("VmRSS") >> 20)
                report(numbers.stop - first, findings)
            if (code := server.process.poll() or server.end()) != 0:
                findings.bugs.append(f"the server has ended with {code}")
        if findings.bugs or log.stat().st_size:
            findings.bugs.append(log.read_text()[-20_000:])
    return findings


def _note(end: str, findings: Findings) -> None:
    if end.startswith("BUG"):
        findings.bugs.append(end)
        print(end[-1_500:], file=sys.stderr, flush=True)
    findings.ends["a bug" if end.startswith("BUG") else end] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--first", type=int, default=0, help="the number of the first request (default: %(default)s)")
    options = parser.parse_args()
    print(f"seed {options.seed}", file=sys.stderr)
    started = time.monotonic()
    findings = attack_plans(options.requests, options.seed, options.first)
    print(f"{options.requests:,} plans in {time.monotonic() - started:,.0f} seconds: {dict(findings.ends)}")
    return 0 if is_met("plan", findings) else 1


if __name__ == "__main__":
    sys.exit(main())
