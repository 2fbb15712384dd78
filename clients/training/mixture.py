"""Mixes loaders: each batch comes from one of them, by weights and a seed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, Final, Literal

from ..closing import Closing
from ..proto.errors import InvalidRequest, Refused
from .batch import Batch
from .loader import Loader
from .loader_state import CHECKSUM, CheckedState, State, checksum
from .order.shuffle import check_seed, drawn

VERSION: Final = 1
_ORDER: Final = "order"
"""The loaders' names in the order in which a step looks at them. States of 0.1.0 lack it: there it was the order of the
mapping that the mixture was made with.
"""


class Mixture(Closing):
    """Batches of several loaders. Step s takes the next batch of a loader that the seed and s choose, by the weights.

    The choice is the same on all ranks, in whatever order they name the loaders. With `ends="first"`, the mixture ends
    where a loader is chosen that has no more batches; with `ends="all"`, the others go on without it. `batch.source` is
    the name of the batch's loader. Weights may be set between any two steps; they are part of the state.

    >>> web = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=4, epochs=None)
    >>> code = tidegate.training.Loader(client, samples_plan, {"samples": samples}, batch_size=2, epochs=None)
    >>> with tidegate.training.Mixture({"web": web, "code": code}, {"web": 3, "code": 1}, seed=3) as mixture:
    ...     for step, batch in zip(range(4), mixture):
    ...         print(batch.source, batch["n"])
    code [0 1]
    web [0 1 2 3]
    web [4 5 6 7]
    code [2 3]
    """

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        weights: Mapping[str, float],
        *,
        seed: int = 0,
        ends: Literal["first", "all"] = "first",
    ) -> None:
        check_seed(seed)
        if not loaders:
            raise InvalidRequest("a mixture needs loaders, by name")
        if not all(isinstance(name, str) for name in loaders):
            raise InvalidRequest(f"the names of a mixture's loaders must be texts, not {', '.join(map(repr, loaders))}")
        _check_loaders(loaders)
        if ends not in ("first", "all"):
            raise InvalidRequest(f"ends must be first or all, not {ends!r}", reason="UNKNOWN_OPTION")
        self._loaders = dict(loaders)
        self._order: Sequence[str] = sorted(self._loaders)
        self._weights = self._checked(weights)
        self._seed = seed
        self._ends = ends
        self._step = 0
        self._batches: dict[str, Iterator[Batch]] = {}

    @property
    def weights(self) -> Mapping[str, float]:
        """The weights of the loaders. Setting them holds from the next step on."""
        return self._weights

    @weights.setter
    def weights(self, weights: Mapping[str, float]) -> None:
        self._weights = self._checked(weights)

    def __iter__(self) -> Generator[Batch]:
        """The batches from the mixture's step on."""
        try:
            while (name := self._choice()) is not None:
                batch = next(self._open(name), None)
                if batch is None:
                    if self._ends == "first":
                        return
                    continue  # the loader has ended: the same step chooses among the others
                batch.source = name
                self._step += 1
                yield batch
        finally:
            self.close()

    def state_dict(self) -> State:
        """The step, the weights and the states of all loaders, as small JSON."""
        weights, order = dict(self._weights), list(self._order)
        loaders = {name: loader.state_dict() for name, loader in self._loaders.items()}
        return {
            "version": VERSION,
            "step": self._step,
            "seed": self._seed,
            "weights": weights,
            _ORDER: order,
            "loaders": loaders,
            CHECKSUM: _checksum_of(self._step, weights, order, loaders),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state. Refused if it is of another seed or of loaders of other names, or does not fit one.
        Then all loaders stay where they are.
        """
        self.check_state(state).load()

    def check_state(self, state: Mapping[str, Any]) -> CheckedState:
        """Raise what `load_state_dict` would raise. The mixture stays where it is until the result's `load()`."""
        if not _is_state(state):
            raise InvalidRequest(f"this is no mixture's state of version {VERSION}: {state!r:.200}", reason="BAD_STATE")
        if state["seed"] != self._seed or set(state["loaders"]) != set(self._loaders):
            others = ", ".join(map(str, state["loaders"]))
            raise Refused(
                f"the state is of a mixture of {others} with seed {state['seed']}; this one has "
                f"{', '.join(self._loaders)} and seed {self._seed}",
                reason="STATE_MISMATCH",
            )
        weights = self._checked(state["weights"])
        order = self._checked_order(state.get(_ORDER, list(self._loaders)))
        loaders = [loader.check_state(state["loaders"][name]) for name, loader in self._loaders.items()]
        expected = _checksum_of(state["step"], weights, order, state["loaders"])
        if CHECKSUM in state and state[CHECKSUM] != expected:
            raise InvalidRequest(
                f"the state has been changed since state_dict() made it: its {CHECKSUM} does not fit step "
                f"{state['step']}, the weights {weights!r:.200} and the states of the loaders. Load it as it was, and "
                "set the mixture's weights afterwards",
                reason="BAD_STATE",
            )

        def load() -> None:
            for loader in loaders:
                loader.load()
            self._weights, self._order, self._step, self._batches = weights, order, state["step"], {}

        return CheckedState(load)

    def close(self) -> None:
        """Delete the tasks of all loaders. The mixture can go on afterwards."""
        self._batches = {}
        for loader in self._loaders.values():
            loader.close()

    def _choice(self) -> str | None:
        """The loader of this step; None if all have ended."""
        names = [name for name in self._order if self._weights[name] > 0 and not self._gone(self._loaders[name])]
        if not names:
            return None
        sums = list(itertools.accumulate(self._weights[name] for name in names))
        at = drawn(self._seed, self._step) * sums[-1]
        return next((name for name, end in zip(names, sums, strict=True) if at < end), names[-1])

    def _gone(self, loader: Loader) -> bool:
        return self._ends == "all" and loader.ended

    def _open(self, name: str) -> Iterator[Batch]:
        loader = self._loaders[name]
        if name not in self._batches:
            self._batches[name] = iter(()) if loader.ended else iter(loader)
        return self._batches[name]

    def _checked(self, weights: Mapping[str, float]) -> dict[str, float]:
        if set(weights) != set(self._loaders):
            raise InvalidRequest(
                f"a mixture needs a weight for each of {', '.join(self._loaders)}; there are weights for "
                f"{', '.join(map(str, weights))}"
            )
        numbers = {name: _number(weight) for name, weight in weights.items()}
        if not all(number >= 0 for number in numbers.values()) or not 0 < sum(numbers.values()) < math.inf:
            raise InvalidRequest(
                f"weights must be numbers from 0 on, with a sum above 0 that is finite: {dict(weights)!r:.200}"
            )
        return numbers

    def _checked_order(self, order: Any) -> Sequence[str]:
        is_names = isinstance(order, list) and all(isinstance(name, str) for name in order)
        if not is_names or sorted(order) != sorted(self._loaders):
            raise InvalidRequest(
                f"the state's {_ORDER} must have each loader of the mixture once: {order!r:.200}", reason="BAD_STATE"
            )
        return list(order)


def _check_loaders(loaders: Mapping[str, object]) -> None:
    """Raise `InvalidRequest` for a name without a loader of its own: two names of one would end each other's loops."""
    others = [
        f"{name} is of {type(loader).__name__}" for name, loader in loaders.items() if not isinstance(loader, Loader)
    ]
    if others:
        raise InvalidRequest(f"a mixture takes loaders alone, and no mixtures: {', '.join(others)}")
    if len(set(map(id, loaders.values()))) < len(loaders):
        raise InvalidRequest(f"a mixture needs another loader for each of {', '.join(loaders)}: one has two names")


def _checksum_of(
    step: int, weights: Mapping[str, float], order: Sequence[str], loaders: Mapping[str, Mapping[str, Any]]
) -> str:
    return checksum(step, weights, order, {name: state.get(CHECKSUM) for name, state in loaders.items()})


def _number(weight: object) -> float:
    """A weight as a plain number, which JSON can have; NaN for what is none."""
    if not isinstance(weight, Real) or isinstance(weight, bool):
        return math.nan
    try:
        return float(weight)
    except OverflowError:  # a large whole number
        return math.inf


def _is_state(state: object) -> bool:
    """True for a mixture's state of this version, whoever it belongs to. It may come from a file."""
    if not isinstance(state, Mapping) or state.get("version") != VERSION or "seed" not in state:
        return False
    step = state.get("step")
    counts = isinstance(step, int) and not isinstance(step, bool) and step >= 0
    return counts and all(isinstance(state.get(part), Mapping) for part in ("weights", "loaders"))
