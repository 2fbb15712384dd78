"""Fair timing: contenders take turns, round by round, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .limits import CALL_SECONDS, Patience


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: tuple[float, ...]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))

    def scaled(self, factor: float) -> Spread:
        return Spread(self.median * factor, self.low * factor, self.high * factor)


class StoppedError(Exception):
    """A contender was not done after so many seconds, and has been ended."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"stopped after {seconds:g} s")
        self.seconds = seconds


@dataclass(frozen=True)
class Runs:
    """Seconds per contender, one number a round. `left_out` says why a contender has none; of one that was stopped
    `stopped` has the seconds that it had.
    """

    seconds: Mapping[str, tuple[float, ...]]
    left_out: Mapping[str, str] = field(default_factory=dict)
    stopped: Mapping[str, float] = field(default_factory=dict)

    def spread(self, name: str) -> Spread:
        return Spread.of(self.seconds[name])

    def ratio(self, name: str, to: str) -> Spread | None:
        """`name` over `to`, taken within each round, at least that if `name` was stopped; None where one of them did
        not run.
        """
        if name in self.stopped and to in self.seconds:
            return Spread.of(tuple(self.stopped[name] / elapsed for elapsed in self.seconds[to]))
        if name not in self.seconds or to not in self.seconds:
            return None
        return Spread.of(tuple(a / b for a, b in zip(self.seconds[name], self.seconds[to], strict=True)))


def interleave(
    contenders: Mapping[str, Callable[[], object]], rounds: int, *, call_seconds: float = CALL_SECONDS
) -> Runs:
    """Run each contender once to warm up and then once a round, the first one changing from round to round.

    A contender that fails, or takes longer than `call_seconds`, is left out from then on, with the error's first line;
    so is one that says that it was stopped.
    """
    patience = Patience(call_seconds)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    left_out: dict[str, str] = {}
    stopped: dict[str, float] = {}

    def timed(name: str) -> float | None:
        try:
            return patience.call(lambda: _clocked(contenders[name]))
        except StoppedError as error:
            stopped[name] = error.seconds
            del seconds[name]
            return None
        except Exception as error:  # noqa: BLE001 - whatever a peer cannot do is reported, not fatal
            left_out[name] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            del seconds[name]
            return None

    for name in contenders:
        timed(name)
    for number in range(rounds):
        names = list(seconds)
        first = number % len(names) if names else 0
        for name in names[first:] + names[:first]:
            gc.collect()
            took = timed(name)
            if took is not None:
                seconds[name].append(took)
    return Runs({name: tuple(values) for name, values in seconds.items()}, left_out, stopped)


def _clocked(contender: Callable[[], object]) -> float:
    start = time.perf_counter()
    contender()
    return time.perf_counter() - start


def summed(runs: Mapping[str, Runs], names: tuple[str, ...]) -> Runs:
    """The total over several cases, round by round, of the contenders among `names` that ran in all of them."""
    whole = [name for name in names if all(name in run.seconds for run in runs.values())]
    totals = {
        name: tuple(sum(of_round) for of_round in zip(*(run.seconds[name] for run in runs.values()), strict=True))
        for name in whole
    }
    missing = {name: f"ran {sum(name in run.seconds for run in runs.values())} of {len(runs)}" for name in names}
    return Runs(totals, {name: why for name, why in missing.items() if name not in totals})
