"""Running networks of terms: feeding, taking, and comparing what they say and what they keep."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from tidegate.operators.changes.kept.state_format import description, layout_of
from tidegate.operators.changes.network.network import Network
from tidegate.operators.changes.network.schedule import Work
from tidegate.operators.changes.values.change import Change
from tidegate.operators.changes.values.rows import Rows
from tidegate.operators.testing import MemoryState

from .per_key import PAIRS, Bag, Pair
from .terms import Term, answer, graph_of, nonzero, summed

Changes: TypeAlias = Sequence[tuple[int, Pair, int]]
"""Port, row, weight: one epoch."""


class Seeded:
    """Any work may come next, and some is put off for long; between two pieces of work something may arrive."""

    whole = False

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.arrivals: list[Callable[[], None]] = []
        self._ready: list[Work] = []
        self._put_off: set[int] = set()

    def add(self, work: Work) -> None:
        self._ready.append(work)

    def check(self) -> None:
        """Nothing stops it."""

    def has_room(self, _size: int) -> bool:
        return True

    def need_room(self, _size: int) -> None:
        """There is room."""

    def next(self) -> Work | None:
        while self.arrivals and (not self._ready or self.random.random() < 0.1):
            self.arrivals.pop(0)()
        if not self._ready:
            return None
        if self.random.random() < 0.05:
            self._put_off = {id(work) for work in self._ready if self.random.random() < 0.5}
        at_hand = [at for at, work in enumerate(self._ready) if id(work) not in self._put_off]
        return self._ready.pop(self.random.choice(at_hand or range(len(self._ready))))

    def clear(self) -> None:
        self._ready.clear()
        self.arrivals.clear()


def change(entries: Sequence[tuple[Pair, int]]) -> Change:
    arrays = [pa.array([row[at] for row, _ in entries], type=pa.int64()) for at in range(2)]
    return Change(Rows.of_arrays(arrays, len(entries)), np.array([weight for _, weight in entries], dtype=np.int64))


def bag(change: Change) -> Bag:
    assert not change.rounds
    columns = [array.to_pylist() for array in change.rows.to_arrays(PAIRS.types)]
    rows = list(zip(*columns, strict=True))
    assert len(set(rows)) == len(rows), "not consolidated"
    assert rows == sorted(rows), "not in canonical order"
    return Counter(dict(zip(rows, change.weights.tolist(), strict=True)))


def feed(network: Network, epoch: Changes, *, seeded: Seeded | None = None, ports: int = 2) -> None:
    """One row at a time, dealt over the channels, then all ends; at the schedule's leisure, if it has a seed."""
    arrivals: list[tuple[int, int, Callable[[], None]]] = []
    for at, (port, row, weight) in enumerate(epoch):
        channel = at % network.channels
        one = change([(row, weight)])
        arrivals.append((port, channel, lambda p=port, c=channel, o=one: network.feed(p, c, o)))
    for port in range(ports):
        arrivals += [(port, c, lambda p=port, c=c: network.end(p, c)) for c in range(network.channels)]
    if seeded is None:
        for _, _, arrive in arrivals:
            arrive()
    else:
        seeded.arrivals += _interleaved(arrivals, seeded.random)


def _interleaved(
    arrivals: list[tuple[int, int, Callable[[], None]]], source: random.Random
) -> list[Callable[[], None]]:
    """In any order that keeps that of each port and channel."""
    queues: dict[tuple[int, int], list[Callable[[], None]]] = {}
    for port, channel, arrive in arrivals:
        queues.setdefault((port, channel), []).append(arrive)
    mixed = []
    while queues:
        chosen = source.choice(sorted(queues))
        mixed.append(queues[chosen].pop(0))
        if not queues[chosen]:
            del queues[chosen]
    return mixed


def network_of(
    term: Term, *, channels: int = 1, seed: int | None = None, continuous: bool = True, **more: Any
) -> tuple[Network, Seeded | None]:
    seeded = None if seed is None else Seeded(seed)
    return Network(graph_of(term, continuous=continuous), channels, schedule=seeded, **more), seeded


def run_epochs(network: Network, seeded: Seeded | None, epochs: Sequence[Changes], ports: int = 2) -> list[Bag]:
    """What each epoch changes."""
    taken = []
    for epoch in epochs:
        feed(network, epoch, seeded=seeded, ports=ports)
        assert network.run(), "the epoch does not end"
        taken.append(bag(network.take()))
    return taken


def kept(network: Network) -> dict[str, Counter[tuple[Any, ...]]]:
    """All state, consolidated over runs and channels, but for the totals of loops."""
    state = MemoryState()
    network.save(state)
    by_operator: dict[str, Counter[tuple[Any, ...]]] = {}
    for name, (_, parts) in state.tables.items():
        if name.endswith("totals"):
            continue
        total = by_operator.setdefault("/".join(part for part in _without_channel(name)), Counter())
        for table in map(unpacked, parts):
            at = [i for i, column in enumerate(table.column_names) if not column.startswith("w")]
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                key = tuple(row[i] for i in at)
                for number, i in enumerate(i for i in range(len(row)) if i not in at):
                    total[*key, number] += row[i]
    return {name: nonzero(total) for name, total in by_operator.items()}


def unpacked(part: pa.Table) -> pa.Table:
    """A part of an arrangement with a column for each of its rows' columns and rounds, however it was written."""
    described = description(part)
    if described is None:
        return part
    width = len(described["columns"])
    layout = layout_of(described, [pa.int64()] * width)
    words = part["packed"].to_numpy()
    rows = layout.rows(words).to_arrays([pa.int64()] * width)
    columns = {f"c{at}": array for at, array in enumerate(rows)}
    columns |= {f"r{at}": pa.array(numbers) for at, numbers in enumerate(layout.rounds(words))}
    return pa.table({**columns, **{name: part[name] for name in part.column_names if name.startswith("w")}})


def _without_channel(name: str) -> list[str]:
    parts = name.split("/")
    return [*parts[:-2], parts[-1]]


def check_continuous(term: Term, epochs: Sequence[Changes], *, channels: int, seed: int | None, ports: int = 2) -> None:
    """After each epoch: the sum of what was given out is the naive answer, and the state that of a fresh network."""
    network, seeded = network_of(term, channels=channels, seed=seed)
    integrated: Bag = Counter()
    inputs: list[Bag] = [Counter() for _ in range(ports)]
    for epoch in epochs:
        for port, row, weight in epoch:
            inputs[port][row] += weight
        (changed,) = run_epochs(network, seeded, [epoch], ports)
        integrated = summed([integrated, changed])
        assert integrated == answer(term, inputs)
    fresh, _ = network_of(term, channels=channels)
    run_epochs(
        fresh, None, [[(port, *one) for port, rows in enumerate(map(nonzero, inputs)) for one in rows.items()]], ports
    )
    assert kept(network) == kept(fresh)


def check_per_epoch(term: Term, epochs: Sequence[Changes], *, channels: int, seed: int | None, ports: int = 2) -> None:
    """Each epoch's result is the naive answer to its own input."""
    network, seeded = network_of(term, channels=channels, seed=seed, continuous=False)
    for epoch in epochs:
        inputs: list[Bag] = [Counter() for _ in range(ports)]
        for port, row, weight in epoch:
            inputs[port][row] += weight
        assert run_epochs(network, seeded, [epoch], ports) == [answer(term, inputs)]
        network.reset()
