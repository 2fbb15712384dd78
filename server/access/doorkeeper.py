"""Bounds the connections of a server: of each machine, and of all, so that the process can still open files.

gRPC accepts every connection. A task of the event loop therefore looks once a second at the accepted connections. If
there are too many, it shuts down the newest ones; older ones stay.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ...proto.errors import Exhausted
from ..calls.call_threads import Threads
from .connections import Connection, Sockets, descriptors

log = logging.getLogger("tidegate.server")

_LOOK_SECONDS: Final = 1.0
_ENOUGH: Final = 64
"""Open files of a process with hardly any connections. Below it, connections are not counted."""


class Doorkeeper:
    """Allows at most `of_peer` connections of a machine to all `addresses`, and `most` of all machines."""

    def __init__(self, *addresses: str, of_peer: int, most: int) -> None:
        self._addresses = addresses
        self._of_peer = of_peer
        self._most = most
        self._known: dict[Connection, int] = {}
        self._ordinal = 0
        self._sockets = Sockets()

    async def watch(self, threads: Threads) -> None:
        """Look again and again, in a thread, until this is cancelled."""
        with suppress(asyncio.CancelledError), self._sockets:
            while True:
                await asyncio.sleep(_LOOK_SECONDS)
                try:
                    await threads.call(self._look_if_many)
                except (OSError, Exhausted) as error:
                    log.warning("the server could not look at its connections, and tries again: %s", error)
                except Exception:
                    log.exception("the server could not look at its connections, and tries again")

    def _look_if_many(self) -> None:
        if len(descriptors()) > min(_ENOUGH, self._of_peer):
            self.look()

    def look(self) -> int:
        """Shut down the newest connections beyond the bounds; the number of them."""
        opened = self._sockets.accepted_at(*self._addresses)
        known = {}
        for accepted in opened:
            self._ordinal += 1
            known[accepted.connection] = self._known.get(accepted.connection, self._ordinal)
        self._known = known
        opened.sort(key=lambda accepted: known[accepted.connection])
        counts: Counter[str] = Counter()
        left_out = []
        for position, accepted in enumerate(opened):
            counts[accepted.peer] += 1
            if position >= self._most or counts[accepted.peer] > self._of_peer:
                left_out.append(accepted)
        for accepted in left_out:
            self._sockets.shut_down(accepted)
        if left_out:
            log.warning(
                "the server closed %d connections: %d were open from %s",
                len(left_out),
                len(opened),
                _peers(counts.most_common(3)),
            )
        return len(left_out)


def most_connections() -> int:
    """Half of the files that this process may open. The other half is for its work."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(1, soft // 2)


def _peers(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{peer} ({count})" for peer, count in counts)
