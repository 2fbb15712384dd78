"""Staged transactions: folders of files that executors wrote, each with a manifest.

``STAGING/<transaction>/_manifest.json`` lists the files in the order in which they are fed, and their users: services,
tasks, and the last epoch that has the files. A transaction stays as long as one of its epochs may be read or replayed:
until the epoch is acknowledged, and behind the task's newest checkpoint if it has any; or until the task is gone.
`sweep` removes all others, including those of drivers that were killed, at the start of every staged feed into the
folder.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from ...client import Client
from ...proto.errors import InvalidRequest, NotFound, Refused
from ...proto.service import Service
from ...task import Task

MANIFEST: Final = "_manifest.json"
_VERSION: Final = 1
_URL: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(?=/)(//(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedFile:
    """A file of a transaction.

    - `path`: below the transaction's folder
    - `partition`, `file`: its position in the order
    - `groups`: the (rows, stored bytes) of its row groups
    - `key`: the value that decides its epoch, if a column does
    """

    path: str
    partition: int
    file: int
    groups: tuple[tuple[int, int], ...]
    key: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A task that was fed with the files, and the last epoch that has them; None while that is not known."""

    service: str
    task: str
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of a transaction, and their users.

    `files` is None until all are written. `schema` and `epoch_by` are those that the files were written for.
    """

    transaction: str
    users: tuple[User, ...]
    schema: str = ""
    epoch_by: str | None = None
    order: str = ""
    order_why: str = ""
    files: tuple[StagedFile, ...] | None = None

    def write(self, folder: Path) -> None:
        """Write the manifest atomically."""
        content = json.dumps({"version": _VERSION, **asdict(self)}, indent=1)
        draft = folder / f"{MANIFEST}.{secrets.token_hex(4)}"
        draft.write_text(content, encoding="utf-8")
        draft.replace(folder / MANIFEST)

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """The manifest in a folder; None if there is none that this version knows."""
        try:
            document = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not isinstance(document, dict) or document.pop("version", None) != _VERSION:
            return None
        try:
            return cls(**{**document, "users": _users(document["users"]), "files": _files(document["files"])})
        except (KeyError, TypeError):
            return None

    def used(self, folder: Path, user: User) -> Manifest:
        """The manifest, with this user's epoch recorded in it and on disk."""
        others = tuple(other for other in self.users if (other.service, other.task) != (user.service, user.task))
        manifest = replace(self, users=(*others, user))
        manifest.write(folder)
        return manifest


def _users(users: Sequence[Mapping[str, Any]]) -> tuple[User, ...]:
    return tuple(User(**user) for user in users)


def _files(files: Sequence[Mapping[str, Any]] | None) -> tuple[StagedFile, ...] | None:
    if files is None:
        return None
    return tuple(
        StagedFile(**{**file, "groups": tuple((rows, size) for rows, size in file["groups"])}) for file in files
    )


def staging_folder(root: str | os.PathLike[str]) -> Path:
    """The root as a folder of this machine, also if it is a file: URL (`file:/x`, `file:///x`)."""
    text = os.fspath(root)
    if (url := _URL.fullmatch(text)) is None:
        return Path(os.path.abspath(text))
    if url["scheme"].lower() != "file" or url["host"] not in (None, "", "localhost") or not url["path"]:
        raise InvalidRequest(
            f"staging={text} is not a folder of a file system: name a folder that the service, the driver and the "
            "executors see under one path",
            reason="STAGING_FOLDER",
        )
    return Path(os.path.normpath(url["path"]))


def transaction_name(name: str | None) -> str:
    """The given name, or a new one."""
    if name is None:
        return secrets.token_hex(12)
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"a transaction's name may have letters, digits, '.', '-' and '_', and cannot be {name!r}",
            reason="TRANSACTION_NAME",
        )
    return name


def service_name(user: Client | Task) -> str:
    """The name of the user's service: its address, or this process and the object in it.

    Principals of one server see each other's tasks as little as those of another server, so each principal counts as a
    service of its own.
    """
    if user.address is None:
        return f"{_here()}:{id(user.service):x}"
    principal = user.service.principal
    return f"{user.address} as {principal}" if principal else user.address


def _here() -> str:
    return f"process:{socket.gethostname()}:{os.getpid()}"


def sweep(staging: str | os.PathLike[str], client: Client | Task) -> list[str]:
    """Remove the transactions in a staging folder that this client's service needs no more; their names.

    Transactions of other services stay, except those of services in processes of this machine that have ended.

    >>> tidegate.spark.sweep("staging", client)
    []
    """
    root = staging_folder(staging)
    name = service_name(client)
    removed = []
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        manifest = Manifest.read(folder)
        if manifest is not None and not any(_needs(user, name, client.service) for user in manifest.users):
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return removed


def _needs(user: User, name: str, service: Service) -> bool:
    if user.service != name:
        return not _process_ended(user.service)
    try:
        info = service.get_task(user.task)
    except NotFound:
        info = None
    if info is not None and (user.epoch is None or info.acknowledged.epoch <= user.epoch):
        return True
    return user.epoch is not None and _replayable(service, user.task, user.epoch)


def _replayable(service: Service, task: str, epoch: int) -> bool:
    """True if a task that restores the newest checkpoint would have to be fed the epoch again."""
    try:
        checkpoints = service.list_checkpoints(task)
    except (NotFound, Refused):
        return False
    return bool(checkpoints) and max(checkpoint.epoch for checkpoint in checkpoints) < epoch


def _process_ended(service: str) -> bool:
    kind, _, rest = service.partition(":")
    host, _, process = rest.partition(":")
    if kind != "process" or host != socket.gethostname():
        return False
    number = int(process.partition(":")[0])
    with suppress(PermissionError):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return True
    return False


@cache
def own_folder() -> Path:
    """A staging folder for services inside this process, removed with the process."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-staged-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
