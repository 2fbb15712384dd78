"""Case `shares`: what is left to a small task beside four tasks that would never end.

The small task runs the small epochs of the case `epochs`, alone and beside four cross joins of 64 billion triples each.
All five belong to one caller: tasks of several callers take turns by caller first, which leaves more to the small one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pyarrow as pa

import tidegate

from . import plans
from .measure import interleave
from .report import Report, Target, spread_text
from .services import embedded, served
from .settings import Settings
from .small_epochs import next_epoch, rows

ENDLESS = 4
ENDLESS_ROWS = 4_000
ALONE, BESIDE = "alone", "beside four that do not end"
LEAST = 1 / 3
"""Of the rate that the small task has alone."""


def run(settings: Settings) -> Report:
    figures, table, targets, notes = {}, [], [], []
    for where in ("embedded", "gRPC"):
        with ExitStack() as stack:
            client = stack.enter_context(embedded() if where == "embedded" else served(settings.data))
            runs = interleave(contenders(client, settings.small_epochs, stack), settings.rounds)
        rate = runs.ratio(ALONE, BESIDE)
        targets.append(Target(f"{where}: rate over the rate alone", rate, LEAST, "at least"))
        for name, seconds in runs.seconds.items():
            took = runs.spread(name).scaled(1e3 / settings.small_epochs)
            share = runs.ratio(ALONE, name)
            table.append([f"{where}, {name}", spread_text(took), spread_text(share) if share else "-"])
            figures[f"{where}, {name}"] = seconds
        notes += [f"{where}, {name}: {why}" for name, why in runs.left_out.items()]
    return Report(
        case="shares",
        title=f"A small task beside {ENDLESS} endless ones, {settings.threads} threads",
        header=["", "ms per epoch", "rate over the rate alone"],
        rows=table,
        targets=targets,
        notes=notes,
        figures={"seconds": figures},
    )


def contenders(client: tidegate.Client, times: int, stack: ExitStack) -> dict[str, Callable[[], object]]:
    task, split = stack.enter_context(client.create_task(plans.filter_project_group())), rows()

    def epochs() -> None:
        for _ in range(times):
            next_epoch(task, split)

    def beside() -> None:
        with endless(client):
            epochs()

    return {ALONE: epochs, BESIDE: beside}


@contextmanager
def endless(client: tidegate.Client) -> Iterator[None]:
    """Tasks at work. They are deleted at the end, which interrupts them."""
    numbers = pa.table({"n": range(ENDLESS_ROWS)})
    with ExitStack() as stack:
        for _ in range(ENDLESS):
            task = stack.enter_context(client.create_task(plans.triples()))
            task.add_split("numbers", numbers)
            task.request_barrier()
        yield
