"""Ceilings that the owner of a service sets for tasks and principals, whatever they ask for."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ...proto.errors import Exhausted, InvalidRequest
from ...proto.values import TaskOptions

UNLIMITED_BY_ZERO: Final = frozenset({"idle_seconds", "loop_seconds", "epoch_seconds"})
"""Options whose value 0 means no limit."""


_SPLIT_BYTES: Final = 512
_FEW_SPLITS: Final = 1_000


def most_splits(queue_bytes: int) -> int:
    """The number of splits that may wait, whatever they hold. Each split takes memory, even without rows."""
    return max(_FEW_SPLITS, queue_bytes // _SPLIT_BYTES)


class InUse:
    """A count or a size of what each principal has in use, at most `most` each.

    Without principals it counts all callers together.
    """

    def __init__(self, most: int, refusal: Callable[[], Exhausted]) -> None:
        self._most = most
        self._refusal = refusal
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, principal: str, size: int = 1) -> None:
        """Count `size` more. Raises `Exhausted` if the principal then had more than the most it may have."""
        with self._lock:
            if self._counts[principal] + size > self._most:
                raise self._refusal()
            self._counts[principal] += size

    def left(self, principal: str) -> int:
        """The count or size that the principal may still take."""
        return self._most - self._counts[principal]

    def give(self, principal: str, size: int = 1) -> None:
        """Count `size` less."""
        with self._lock:
            self._counts[principal] -= size
            if not self._counts[principal]:
                del self._counts[principal]

    @contextmanager
    def one(self, principal: str) -> Iterator[None]:
        self.take(principal)
        try:
            yield
        finally:
            self.give(principal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """The most that a service lets tasks and principals have.

    - `options`: the highest value of each option for one task, by the option's name
    - `options_of_principal`: the highest sum of each option over all tasks of one principal
    - `tasks`: the number of tasks of all principals together
    - `tasks_of_principal`: the number of tasks of one principal
    """

    options: Mapping[str, float] = field(default_factory=dict)
    options_of_principal: Mapping[str, float] = field(default_factory=dict)
    tasks: int | None = None
    tasks_of_principal: int | None = None

    def allowed(self, options: TaskOptions) -> TaskOptions:
        """The options, with the ceiling in place of "no limit".

        Raises `InvalidRequest` if an option is above its ceiling.
        """
        for name, most in self.options.items():
            value = getattr(options, name)
            if value > most and (most or name not in UNLIMITED_BY_ZERO):
                raise InvalidRequest(
                    f"{name}={value} is too high: this server allows a task at most {most}", reason="ABOVE_CEILING"
                )
        bounded: dict[str, Any] = self._in_place_of_no_limit(options)
        return replace(options, **bounded) if bounded else options

    def warnings(self, options: TaskOptions) -> tuple[str, ...]:
        """A sentence for each option that asks for no limit and gets the ceiling from `allowed`."""
        return tuple(
            f"{name}=0 asks for no limit, but this server allows a task at most {most:g} seconds: the task has "
            f"{name}={most:g}"
            for name, most in self._in_place_of_no_limit(options).items()
        )

    def _in_place_of_no_limit(self, options: TaskOptions) -> dict[str, float]:
        return {
            name: most
            for name, most in self.options.items()
            if most and name in UNLIMITED_BY_ZERO and not getattr(options, name)
        }

    def check_tasks(self, tasks: int, own: Iterable[TaskOptions], more: TaskOptions) -> None:
        """Raise `Exhausted` if there is no room for a task with the options `more`.

        `tasks` counts the tasks of all principals; `own` are the options of the caller's tasks. Tasks that are being
        made count as well.
        """
        own = tuple(own)
        for name, limit in self.options_of_principal.items():
            has = sum(getattr(options, name) for options in own)
            if has + getattr(more, name) > limit:
                raise Exhausted(
                    f"all your tasks together may have {name}={limit}: your tasks have {has}, and the new task asks "
                    f"for {getattr(more, name)}; delete a task, or ask for less",
                    reason="PRINCIPAL_CEILING",
                )
        for most, count, whose in ((self.tasks_of_principal, len(own), "you have"), (self.tasks, tasks, "there are")):
            if most is not None and count >= most:
                raise Exhausted(
                    f"{whose} {count} tasks, and this server allows no more: delete a task that is not needed any more",
                    reason="TOO_MANY_TASKS",
                )


NO_CEILINGS: Final = Ceilings()
