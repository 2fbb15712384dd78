"""Two ways to a service: over gRPC, or in this process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from .client import Client
from .proto.address import is_address
from .proto.errors import InvalidRequest
from .proto.user_operator import UserOperators


def connect(address: str, *, retry_seconds: float = 20.0) -> Client:
    """A client of the server at HOST:PORT (or unix:PATH). Does not wait for it; the first call does.

    A connection that breaks is tried again for `retry_seconds`; then calls raise `Unavailable`.
    """
    from .remote import RemoteService

    if not is_address(address):
        raise InvalidRequest(f"a server's address is HOST:PORT, with a port up to 65535, or unix:PATH, not {address!r}")
    return Client(RemoteService(address, retry_seconds))


def local(
    *,
    roots: Iterable[str | os.PathLike[str]] = ("/",),
    spill_directory: str | os.PathLike[str] | None = None,
    threads: int | None = None,
    write_root: str | os.PathLike[str] | None = None,
    checkpoint_root: str | os.PathLike[str] | None = None,
    databases: Mapping[str, str | os.PathLike[str]] | None = None,
    operators: UserOperators | None = None,
    spark_staging: str | os.PathLike[str] | None = None,
) -> Client:
    """A service of one's own in this process: the same API, no server.

    Plans and splits may read files below `roots`: everything this process may, unless it is told otherwise. Tables that
    plans write are folders in `write_root`; unless it is given, plans that write are refused. `databases` are SQLite
    files whose tables plans may look rows up in, by the names that plans call them. Checkpoints are kept in
    `checkpoint_root`, a folder for each task; unless it is given, none are taken. `operators` are those of one's own
    that plans may name, each made with `user_operator`. `spark_staging` is a folder that this process and all executors
    of Spark see, for tasks with executor="spark"; unless it is given, they run on local masters alone.
    """
    from .executor.embedded import open_service
    from .proto.allocator import tune_allocator

    tune_allocator()
    return Client(
        open_service(
            roots=[Path(root) for root in roots],
            spill_directory=None if spill_directory is None else Path(spill_directory),
            threads=threads,
            write_root=None if write_root is None else Path(write_root),
            checkpoint_root=None if checkpoint_root is None else Path(checkpoint_root),
            databases={name: Path(path) for name, path in (databases or {}).items()},
            operators=operators,
            spark_staging=None if spark_staging is None else Path(spark_staging),
        )
    )
