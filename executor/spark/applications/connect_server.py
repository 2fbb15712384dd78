"""Servers of Spark Connect: how long a client waits for one that is away, and which errors say that it is gone.

Spark's own client tries a call again for more than ten minutes. A session is lost with its server: one that is started
again on the same port does not know it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from pyspark.errors import PySparkException

from ..worker import task_failures

WAIT_SECONDS: Final = 30.0
"""How long calls are tried again while the server does not answer."""
AWAY_SECONDS: Final = 5.0
"""How long after such a wait a server counts as away, so that it is asked once, and not waited for."""
_PAUSE_MS: Final = 500
_CLOSE_SECONDS: Final = 10.0
_CHANNEL: Final = [
    # Other clients of this process may have found the server away for minutes, and would have this one wait as long.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 2_000),
]
_GONE: Final = frozenset(
    {
        "INVALID_HANDLE.SESSION_CHANGED",
        "INVALID_HANDLE.SESSION_CLOSED",
        "INVALID_HANDLE.SESSION_NOT_FOUND",
        "NO_ACTIVE_SESSION",  # of a client that another call has told so
        "RESPONSE_ALREADY_RECEIVED",  # of a job that the server does not know any more
    }
)
_STOPPED: Final = re.compile(r"stopped SparkContext|SparkContext was (?:shut down|stopped)")
"""The messages of a server that is ending."""


def connect(address: str) -> Any:
    """A session at this address, `sc://...`. Returns before the server has been asked."""
    from pyspark.sql.connect.client import DefaultChannelBuilder
    from pyspark.sql.connect.session import SparkSession

    return SparkSession.builder.channelBuilder(DefaultChannelBuilder(address, _CHANNEL)).create()


def try_again_for(session: Any, seconds: float) -> None:
    """Have the session's calls fail if the server does not answer for about so many seconds."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    pauses = int(seconds * 1_000 / _PAUSE_MS)
    policy = DefaultPolicy(max_retries=pauses, initial_backoff=_PAUSE_MS, backoff_multiplier=1, max_backoff=_PAUSE_MS)
    session.client.set_retry_policies([policy] if pauses else [])


def is_gone(error: BaseException) -> bool:
    """True if the error says that the server, or the session on it, is gone. Asks nobody."""
    import grpc

    if isinstance(error, grpc.RpcError):
        return bool(error.code() is grpc.StatusCode.UNAVAILABLE)
    if not isinstance(error, PySparkException):
        return False
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    if status is grpc.StatusCode.UNAVAILABLE or error.getCondition() in _GONE:
        return True
    return _STOPPED.search(str(error)) is not None


@contextmanager
def answering(session: Any) -> Iterator[None]:
    """A context whose calls of the session raise `ExecutionError` (`SPARK_ENDED`) if its server is gone."""
    try:
        yield
    except Exception as error:
        if not is_gone(error):
            raise
        raise task_failures.of_server(error, session.client.host) from error


def end(session: Any, *, lost: bool) -> None:
    """End a session, here and on its server. Tries once to reach the server, and does not wait for one that is `lost`:
    it may answer again, and still have the session with its job.
    """

    def close() -> None:
        client = session.client
        try_again_for(session, 0)
        with suppress(Exception):
            client.release_session()
        with suppress(Exception):
            client.close()  # waits for calls that are still tried again

    closing = threading.Thread(target=close, name="spark-connect-close", daemon=True)
    closing.start()
    if not lost:
        closing.join(_CLOSE_SECONDS)
