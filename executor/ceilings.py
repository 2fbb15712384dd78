"""What the owner of a service lets tasks have, whatever their creators ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ..proto.errors import Exhausted, InvalidRequest
from ..proto.values import TaskOptions

UNLIMITED_BY_ZERO: Final = frozenset({"idle_seconds", "loop_seconds", "epoch_seconds"})
"""Options of which 0 says that there is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """`options` are the most that a task may have of each, by the option's name. `tasks` are those of everybody
    together, `tasks_of_principal` those of one.
    """

    options: Mapping[str, float] = field(default_factory=dict)
    tasks: int | None = None
    tasks_of_principal: int | None = None

    def allowed(self, options: TaskOptions) -> TaskOptions:
        """The options themselves, with the ceiling where they ask for no limit; InvalidRequest beyond a ceiling."""
        changed: dict[str, Any] = {}
        for name, most in self.options.items():
            value = getattr(options, name)
            if not value and name in UNLIMITED_BY_ZERO:
                changed[name] = most
            elif value > most:
                raise InvalidRequest(
                    f"{name}={value} is more than this server lets a task have: {most} at most", reason="ABOVE_CEILING"
                )
        return replace(options, **changed) if changed else options

    def check_tasks(self, tasks: int, own: int) -> None:
        """Exhausted where there is no room for one more, beside so many tasks of which `own` are the caller's."""
        for most, count, whose in ((self.tasks_of_principal, own, "you have"), (self.tasks, tasks, "there are")):
            if most is not None and count >= most:
                raise Exhausted(
                    f"{whose} {count} tasks, as many as this server takes: delete one that is not needed any more",
                    reason="TOO_MANY_TASKS",
                )


NO_CEILINGS: Final = Ceilings()
