"""Case `planning`: the CPU time until a plan is a task, beside DataFusion's from SQL to its physical plan.

The 22 plans of TPC-H, the first of them in a process of its own, long plans of two sizes, and tasks of four channels.
CPU time, since other work on the machine lengthens the wall time of calls so short many times over.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import substrait.dataframe as sub
from google.protobuf.message import Message

import tidegate
from tidegate.proto.encoding.wire_format import varint

from . import tpch
from .measure import Runs, Spread
from .progress import progress
from .report import Report, Target, spread_text
from .services import embedded
from .settings import Settings

ONE, FOUR, PEER = "Tidegate", "Tidegate, 4 channels", "DataFusion, from SQL"
LITERALS = {"10,000 literals": 10_000, "5,000 literals": 5_000}
PROJECTIONS = {"1,000 projections": 1_000, "500 projections": 500}
FIRST = """
import sys, time
import tidegate
with tidegate.local() as client:
    plan = open(sys.argv[1], "rb").read()
    start = time.process_time()
    with client.create_task(plan):
        print(time.process_time() - start)
"""


def run(settings: Settings) -> Report:
    chosen = [plan for plan in tpch.plans(settings.plans, "datafusion") if plan.query in settings.queries]
    runs: dict[str, Runs] = {}
    with ExitStack() as stack:
        client = stack.enter_context(embedded())
        to_physical = datafusion_planner(tpch.data(settings.data, settings.scale))
        if not gc.get_freeze_count():  # else whoever runs this has frozen what is there
            gc.collect()
            gc.freeze()  # as a server does
            stack.callback(gc.unfreeze)
        for plan in progress(chosen, "planning"):
            contenders = tasks(client, plan.path.read_bytes()) | {PEER: partial(to_physical, plan.sql)}
            runs[f"q{plan.query:02}"] = cpu_times(contenders, settings.rounds)
        for name, text in long_plans().items():
            runs[name] = cpu_times({ONE: tasks(client, text)[ONE]}, settings.rounds)
    return report(runs, first(chosen[0].path, settings.rounds))


def tasks(client: tidegate.Client, plan: bytes) -> dict[str, Callable[[], object]]:
    """A task that is made and ended: of one channel, and of four, whatever the plan's size."""

    def task(channels: int) -> None:
        with client.create_task(plan, channels=channels):
            pass

    return {ONE: partial(task, 1), FOUR: partial(task, 4)}


def datafusion_planner(files: Mapping[str, Path]) -> Callable[[str], object]:
    """What DataFusion does before it runs a query: its plans of other schemas than these files' it refuses."""
    import datafusion

    context = datafusion.SessionContext()
    for table, path in files.items():
        context.register_parquet(table, str(path))
    return lambda sql: context.sql(sql).execution_plan()


def cpu_times(contenders: Mapping[str, Callable[[], object]], rounds: int) -> Runs:
    """CPU seconds of the process for each call, after one that warms up. One that cannot run is left out."""
    seconds: dict[str, list[float]] = {}
    left_out: dict[str, str] = {}
    for name, call in contenders.items():
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever a peer cannot plan is reported, not fatal
            left_out[name] = str(error).partition("\n")[0]
        else:
            seconds[name] = []
    for _ in range(rounds):
        for name, spent in seconds.items():
            start = time.process_time()
            contenders[name]()
            spent.append(time.process_time() - start)
    return Runs({name: tuple(spent) for name, spent in seconds.items()}, left_out)


def first(path: Path, rounds: int) -> Spread:
    """CPU seconds of the first plan of a process, which loads what plans need."""
    command = [sys.executable, "-c", FIRST, str(path)]
    return Spread.of(
        tuple(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(rounds))
    )


def long_plans() -> Mapping[str, bytes]:
    """Lists of numbers that a column is compared with, and projections, each over the one before."""
    plans = {name: literals(number) for name, number in LITERALS.items()}
    return plans | {name: projections(number) for name, number in PROJECTIONS.items()}


def literals(number: int) -> bytes:
    rows = sub.read_named_table("rows", {"k": sub.i64})
    return bytes(rows.filter(sub.col("k").is_in([*range(number)])).to_plan().SerializeToString())


def projections(number: int) -> bytes:
    """Written level by level: protobuf's own writer ends at a hundred."""
    plan = sub.read_named_table("rows", {"k": sub.i64}).select((sub.col("k") + 1).alias("k")).to_plan()
    root = plan.relations[0].root
    project = root.input.project
    below = project.input.SerializeToString()
    project.ClearField("input")
    level = project.SerializeToString()
    for _ in range(number):
        below = _field(root.input, "project", level + _field(project, "input", below))
    root.ClearField("input")
    written = _field(plan.relations[0], "root", root.SerializeToString() + _field(root, "input", below))
    relations = _field(plan, "relations", written)
    del plan.relations[:]
    return bytes(plan.SerializeToString() + relations)


def _field(message: Message, name: str, value: bytes) -> bytes:
    """A field of the message, which is a message itself, on the wire."""
    return varint(message.DESCRIPTOR.fields_by_name[name].number << 3 | 2) + varint(len(value)) + value


def report(runs: Mapping[str, Runs], first_plan: Spread) -> Report:
    queries = {name: measured for name, measured in runs.items() if FOUR in measured.seconds}
    medians = [measured.spread(ONE).median * 1e3 for measured in queries.values()]
    ratios = [measured.spread(FOUR).median / measured.spread(ONE).median for measured in queries.values()]
    targets = [
        Target("ms of the query in the middle", Spread.of(tuple(medians)), 10.0),
        Target("ms of the longest query", Spread.of((max(medians),)), 25.0),
        Target("ms of the first plan of a process", first_plan.scaled(1e3), 60.0),
        Target("4 channels over 1, the query in the middle", Spread.of(tuple(ratios)), 1.5),
        Target("s for 10,000 literals", runs["10,000 literals"].spread(ONE), 0.1),
        Target("10,000 literals over 5,000", _growth(runs, LITERALS), 2.5),
        Target("s for 1,000 projections", runs["1,000 projections"].spread(ONE), 0.3),
        Target("1,000 projections over 500", _growth(runs, PROJECTIONS), 2.5),
    ]
    return Report(
        case="planning",
        title="Planning: CPU time until a plan is a task",
        header=["", f"{ONE}, ms", f"{FOUR}, ms", f"{PEER}, ms", f"{ONE} over {PEER}"],
        rows=[_row(name, measured) for name, measured in runs.items()],
        targets=targets,
        notes=[f"{at}, {name}: {why}" for at, measured in runs.items() for name, why in measured.left_out.items()],
        figures={"seconds": {name: measured.seconds for name, measured in runs.items()}},
    )


def _growth(runs: Mapping[str, Runs], sizes: Mapping[str, int]) -> Spread:
    """The larger over the smaller, which is half of it."""
    larger, smaller = (runs[name].seconds[ONE] for name in sizes)
    return Spread.of(tuple(more / less for more, less in zip(larger, smaller, strict=True)))


def _row(name: str, measured: Runs) -> list[str]:
    cells = [
        spread_text(measured.spread(contender).scaled(1e3)) if contender in measured.seconds else "-"
        for contender in (ONE, FOUR, PEER)
    ]
    ratio = measured.ratio(ONE, PEER)
    return [name, *cells, "-" if ratio is None else spread_text(ratio)]
