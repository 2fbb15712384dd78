"""Brings the durable tasks of a restarted service back: one after the other, those that are asked for first."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...proto.errors import Unavailable
from ...proto.values import Recovery, SourceInfo, TaskInfo, TaskOptions, TaskPhase
from ..journal.durable_tasks import StoredTask


class Recovering:
    """The tasks that are not back yet. `recover` brings one back; it raises nothing. Thread-safe."""

    def __init__(self, stored: Sequence[StoredTask], recover: Callable[[StoredTask], None]) -> None:
        self._stored = {task.identity: task for task in stored}
        self._recover = recover
        self._turn = threading.Condition()
        self._current: str | None = None
        """The task that is being brought back."""
        self._asked: list[str] = []
        self._closed = False
        self._thread: threading.Thread | None = None
        if stored:
            self._thread = threading.Thread(target=self._run, name="tidegate-recovery", daemon=True)

    def start(self) -> None:
        if self._thread is not None:
            self._thread.start()

    def __contains__(self, identity: str) -> bool:
        return identity in self._stored

    @property
    def options(self) -> dict[str, TaskOptions]:
        """The options of the tasks that are not back yet, by their ids."""
        return {identity: task.creation.options for identity, task in tuple(self._stored.items())}

    def infos(self) -> dict[str, TaskInfo]:
        return {identity: described(task) for identity, task in tuple(self._stored.items())}

    def need(self, identity: str) -> None:
        """Return once the task is back, or if it is none of these tasks. It is brought back on the calling thread."""
        if identity not in self._stored:
            return
        with self._turn:
            self._asked.append(identity)
            try:
                while self._current is not None and identity in self._stored:
                    self._turn.wait()
                task = self._stored.get(identity)
                if task is None or self._closed:
                    return
                self._current = identity
            finally:
                self._answered(identity)
        self._bring_back(task)

    def ask(self, identity: str) -> None:
        """Have the task brought back before others. Raises `Unavailable`, because it is not back yet. Never waits."""
        with self._turn:
            if identity not in self._asked:
                self._asked.append(identity)
        raise being_recovered(identity)

    def _answered(self, identity: str) -> None:
        if identity in self._asked:
            self._asked.remove(identity)

    def again(self, task: StoredTask) -> None:
        """Bring a task back once more."""
        with self._turn:
            self._stored[task.identity] = task
        self.need(task.identity)

    def take(self, identity: str) -> StoredTask | None:
        """Take a task out, which then does not come back. Waits while it is being brought back."""
        with self._turn:
            while self._current == identity:
                self._turn.wait()
            return self._stored.pop(identity, None)

    def close(self) -> None:
        """Bring no more tasks back."""
        with self._turn:
            self._closed = True
            self._turn.notify_all()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while (task := self._next()) is not None:
            self._bring_back(task)

    def _next(self) -> StoredTask | None:
        with self._turn:
            while self._current is not None:
                self._turn.wait()
            if self._closed or not self._stored:
                return None
            asked = next((identity for identity in self._asked if identity in self._stored), None)
            self._current = asked or next(iter(self._stored))
            return self._stored[self._current]

    def _bring_back(self, task: StoredTask) -> None:
        try:
            self._recover(task)
        finally:
            with self._turn:
                if self._stored.get(task.identity) is task:  # else it has failed, and is to be brought back once more
                    del self._stored[task.identity]
                self._answered(task.identity)
                self._current = None
                self._turn.notify_all()


def being_recovered(identity: str) -> Unavailable:
    return Unavailable(f"task {identity!r} is being recovered: try again soon", reason="RECOVERING")


def described(task: StoredTask) -> TaskInfo:
    """The description of a task that is not back yet."""
    sealed = max([task.start.epoch, *(record.change.seal.epoch for record in task.records if record.change.seal)])
    start = max([task.start.epoch, *task.restarts_behind])
    return replace(
        task.creation.info,
        id=task.identity,
        state=TaskPhase.RECOVERING,
        sealed_epoch=sealed,
        completed_epoch=start,
        acknowledged=task.acknowledged,
        sources=tuple(_source(source, task) for source in task.creation.info.sources),
        recovery=Recovery(epochs=sealed - start, done=0),
    )


def _source(source: SourceInfo, task: StoredTask) -> SourceInfo:
    before = task.start.sources.get(source.name, 0)
    changes = [record.change for record in task.records]
    added = (split.sequence for change in changes for split, _ in change.splits if split.source == source.name)
    sealed = (change.seal.last.get(source.name, 0) for change in changes if change.seal is not None)
    ended = any(change.ended is not None and source.name in change.ended.ends for change in changes)
    return replace(
        source,
        last_added=max(added, default=before),
        last_sealed=max(sealed, default=before),
        ended=ended or source.static or source.name in task.start.ends,
    )
