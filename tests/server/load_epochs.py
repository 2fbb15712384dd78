"""Tasks of several kinds that run small epochs, each with the answer that naive Python has for it."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import pyarrow as pa

import tidegate
from tidegate.proto.values import PlanBytes

from ..executor import plans

Rows: TypeAlias = list[tuple[int, int]]
Row: TypeAlias = tuple[int, ...]
History: TypeAlias = Sequence[Mapping[str, Rows]]
"""What a task was fed, epoch by epoch, from the first to the one whose answer is wanted."""

_ROWS: Final = 50
_KEYS: Final = 8
_ABOVE: Final = 50
_ROUND_SECONDS: Final = 2.0


def sums(rows: Rows) -> list[Row]:
    totals: dict[int, int] = defaultdict(int)
    for key, value in rows:
        totals[key] += value
    return list(totals.items())


def _sums_above(history: History) -> Counter[Row]:
    return Counter(sums([(key, value) for key, value in history[-1]["t"] if value > _ABOVE]))


def _doubles(history: History) -> Counter[Row]:
    return Counter((2 * key, 2 * value) for key, value in history[-1]["t"] if value > _ABOVE)


def _pairs(history: History) -> Counter[Row]:
    left, right = history[-1]["t"], history[-1]["u"]
    return Counter((k, v, key, value) for k, v in left for key, value in right if k == key)


def _changed_sums(history: History) -> Counter[Row]:
    """How the sums of all rows so far differ from those of the rows before."""
    rows = [[(key, value) for key, value in epoch["t"] if value > _ABOVE] for epoch in history]
    before = sums([row for epoch in rows[:-1] for row in epoch])
    after = sums([row for epoch in rows for row in epoch])
    difference = Counter(after)
    difference.subtract(before)
    return Counter({row: weight for row, weight in difference.items() if weight})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of task. `answer` is a row's weight by the row."""

    plan: PlanBytes
    answer: Callable[[History], Counter[Row]]
    sources: tuple[str, ...] = ("t",)
    options: Mapping[str, object] = field(default_factory=dict)


_FILTERED: Final = plans.filtered(plans.read("t", "k", "v"), 1, _ABOVE)
_JOINED: Final = plans.joined(plans.read("t", "k", "v"), plans.read("u", "k", "v"), 2)
_SUMMED: Final = plans.plan(plans.summed(_FILTERED), "k", "s")
KINDS: Final = (
    Kind(plan=_SUMMED, answer=_sums_above),
    Kind(plan=plans.plan(plans.doubled(_FILTERED, 2), "k", "v"), answer=_doubles),
    Kind(plan=plans.plan(_JOINED, "k", "v", "l", "w"), answer=_pairs, sources=("t", "u")),
    Kind(plan=_SUMMED, answer=_sums_above, options={"channels": 2}),
    Kind(plan=_SUMMED, answer=_changed_sums, options={"mode": "continuous"}),
)


class Fed:
    """A task, and what it was fed."""

    def __init__(self, client: tidegate.Client, kind: Kind) -> None:
        self._kind = kind
        self.task = client.create_task(kind.plan.json or b"", **kind.options)  # type: ignore[arg-type]
        self._history: list[Mapping[str, Rows]] = []

    def epoch(self, draw: random.Random) -> tuple[float, bool]:
        """How many seconds the next epoch took, and whether its answer is right."""
        rows = {
            name: [(draw.randrange(_KEYS), draw.randrange(100)) for _ in range(_ROWS)] for name in self._kind.sources
        }
        self._history.append(rows)
        splits = {name: _table(row) for name, row in rows.items()}
        began = time.perf_counter()
        answer = self.task.run_epoch(splits).table()
        seconds = time.perf_counter() - began
        return seconds, _weights(answer, self._kind) == self._kind.answer(self._history)

    def delete(self) -> None:
        self.task.delete()


def _table(rows: Rows) -> pa.Table:
    return pa.table({"k": [key for key, _ in rows], "v": [value for _, value in rows]})


def _weights(answer: pa.Table, kind: Kind) -> Counter[Row]:
    rows = zip(*(column.to_pylist() for column in answer.columns), strict=True)
    weights: Counter[Row] = Counter()
    for row in rows:
        if kind.options.get("mode") == "continuous":
            weights[row[:-1]] += row[-1]
        else:
            weights[row] += 1
    return weights


@dataclass(slots=True)
class Epochs:
    """`seconds` of each epoch; `failures` are epochs whose answers were wrong, or that had none."""

    seconds: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def run_epochs(address: str, tasks: int, threads: int, seconds: float, seed: int) -> Epochs:
    """Have `tasks` tasks run an epoch each in turn, for so many seconds and a round at least, over a connection for
    each thread. Each task's turn comes once in two seconds, or as often as the server keeps up with. At last all tasks
    are deleted.
    """
    epochs = Epochs()
    until = time.monotonic() + seconds
    workers = [
        threading.Thread(target=_feed, args=(address, number, range(number, tasks, threads), until, seed, epochs))
        for number in range(threads)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return epochs


def _feed(address: str, number: int, numbers: Sequence[int], until: float, seed: int, epochs: Epochs) -> None:
    draw = random.Random(seed + number)
    try:
        with tidegate.connect(address, flight=False) as client:
            fed = [Fed(client, KINDS[task_number % len(KINDS)]) for task_number in numbers]
            for fed_task in fed:
                fed_task.epoch(draw)  # its first one makes operators, and is no small epoch
            ended = False
            while not ended:
                for due, fed_task in enumerate(fed):
                    begin = time.monotonic()
                    seconds, right = fed_task.epoch(draw)
                    epochs.seconds.append(seconds)
                    if not right:
                        epochs.failures.append(f"task {numbers[due]} has a wrong answer")
                    time.sleep(max(0.0, begin + _ROUND_SECONDS / len(fed) - time.monotonic()))
                ended = time.monotonic() >= until
            for fed_task in fed:
                fed_task.delete()
    except tidegate.TidegateError as error:
        epochs.failures.append(f"{type(error).__name__}: {error}")
