"""Sends files of the client's machine for use in splits."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Self

from ..proto.errors import TidegateError, Unavailable
from ..proto.service import Service
from ..splits import Upload


class Sending:
    """Sends files for the splits of one call, as a group of the task.

    Each file is removed once its epoch is acknowledged. The files of a call that is refused, or that changes nothing,
    are removed at once. `before` is called before the first file, to make room.
    """

    def __init__(self, service: Service, task: str, before: Callable[[], None] | None = None) -> None:
        self._service = service
        self._task = task
        self._before = before
        self._group = ""

    def __call__(self, name: str, data: Upload) -> str:
        if not self._group:
            self._group = secrets.token_hex(16)
            if self._before is not None:
                self._before()
        return self._service.upload(self._task, name, data, group=self._group)

    def drop(self) -> None:
        """Remove the files that no split names."""
        if self._group:
            self._service.drop_uploads(self._task, self._group)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Unavailable):
            with contextlib.suppress(TidegateError):  # the caller should see the error that ended the call
                self.drop()
