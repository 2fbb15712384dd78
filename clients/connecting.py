"""Two ways to a service: over gRPC, or in this process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from .client import Client
from .proto.operator_registration import UserOperators


def connect(
    address: str,
    *,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    tls: bool | str | os.PathLike[str] | None = None,
    plaintext_token: bool = False,
    retry_seconds: float = 20.0,
    flight: bool = True,
) -> Client:
    """A client of the server at HOST:PORT (or unix:PATH). Does not wait for it; the first call does.

    A server that wants to know who calls is told by a token: the one in `token_file`, or `token` itself, or what the
    environment has in TIDEGATE_TOKEN or names in TIDEGATE_TOKEN_FILE. With `tls=True` the server's certificate is
    checked against the authorities that gRPC knows, with `tls` a path against those in that file; where it is not
    given the environment's TIDEGATE_TLS says the same (true, or a path). A token goes to another machine over TLS only,
    unless `plaintext_token` says otherwise.

    A connection that breaks is tried again for `retry_seconds`; then calls raise `Unavailable`. Large results come over
    Arrow Flight, from the port of the same host that the server tells, unless `flight` is False.
    """
    from .transport.access import access
    from .transport.remote import RemoteService

    wanted = access(address, token=token, token_file=token_file, tls=tls, plaintext_token=plaintext_token)
    return Client(RemoteService(wanted, retry_seconds, flight=flight))


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
    from .executor.service.embedded import open_service
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
