"""`connect` and `local`: a client of a server, or of a service in this process."""

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
    reconnect_seconds: float = 60.0,
    flight: bool = True,
) -> Client:
    """A client of the server at HOST:PORT or unix:PATH. Returns at once; the first call connects.

    >>> with tidegate.connect(address) as client:
    ...     print(client.capabilities().version == tidegate.__version__)
    True

    - `token`, `token_file`: the token that says who calls, or its file; else the environment's TIDEGATE_TOKEN or
      TIDEGATE_TOKEN_FILE. A file is read again when the server does not know the token
    - `tls`: True: the authorities that gRPC knows check the server's certificate. A path: the authorities in that file.
      Not given: the environment's TIDEGATE_TLS (true, or a path)
    - `plaintext_token`: True allows a token to travel to another machine without TLS
    - `reconnect_seconds`: how long calls try again while the server cannot be reached, before they raise `Unavailable`.
      A server that is started again within this time is a pause
    - `flight`: False for gRPC only; else large results come over Arrow Flight, from the port of the same host that the
      server tells
    """
    from .transport.access import access
    from .transport.remote import RemoteService

    wanted = access(
        address,
        token=token,
        token_file=token_file,
        tls=tls,
        plaintext_token=plaintext_token,
        reconnect_seconds=reconnect_seconds,
        flight=flight,
    )
    return Client(RemoteService(wanted))


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
    data: str | os.PathLike[str] | None = None,
) -> Client:
    """A service of your own in this process: the same API, without a server.

    >>> with tidegate.local(roots=["."]) as client:
    ...     print(client.query(plan, {"sales": "sales.parquet"}).to_pylist())
    [{'item': 'cup', 'total': 8}, {'item': 'tea', 'total': 7}]

    - `roots`: folders that plans and splits may read files below; everything that this process may read, if not given
    - `spill_directory`: the folder for the service's own files; the system's temporary folder, if not given
    - `threads`: tasks, or channels of tasks, that run at once; the number of CPUs that this process may use and
      at least four, if not given. Then one task's channels use at most one thread for each CPU, or two on one CPU
    - `write_root`: the folder of the tables that plans write; without it, plans that write are refused
    - `checkpoint_root`: the folder of checkpoints, with a folder in it for each task; without it, no checkpoints are
      taken
    - `databases`: SQLite files whose tables plans may look rows up in, by their names in plans
    - `operators`: your operators that plans may name, each made with `user_operator`
    - `spark_staging`: a folder that this process and all executors of Spark see, for tasks with executor="spark";
      without it, such tasks run only on local masters
    - `data`: the folder where tasks are kept, so that the next service with this folder goes on with them; without it,
      tasks end with the service
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
            data=None if data is None else Path(data),
        )
    )
