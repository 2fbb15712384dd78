"""`with` for what is closed when its block ends."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self


class _Closed(Protocol):
    def close(self) -> None: ...


class Closing:
    """A `with` block over the object ends with its `close`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self: _Closed, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
