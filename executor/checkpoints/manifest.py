"""A checkpoint's manifest: the task, its position, and the files that hold its state; as a value and as JSON.

::

    {"format": 4, "digest": "<of the rest>", "checkpoint": {"name": "epoch-12", "epoch": 12, ...}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import pyarrow as pa

from ...proto.errors import CheckpointError
from ..ledger.transactions import Record

FORMAT: Final = 4
"""The format of the manifest and of the folder around it. Every table in it has its own version besides.

Format 1 had no transactions, format 2 no task, and format 3 no fingerprints.
"""

NO_TASK: Final = ""
"""The task in manifests that do not name one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An Arrow IPC file, named by the digest of its bytes.

    `fingerprint` finds damage of the bytes in a third of the time that their digest takes. Older checkpoints have none.
    """

    digest: str
    rows: int
    size: int
    fingerprint: str = ""

    @property
    def file(self) -> str:
        return f"{self.digest}.arrow"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTable:
    """A table of an operator's state. Its rows are those of its parts, one after the other."""

    name: str
    version: int
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Everything that a task is made from and its rows depend on.

    - `plan`: a digest of the plan's bytes
    - `meaning`: a digest of the plan's meaning, with the values of its parameters
    - `tables`: its static sources, each with its number of rows (of bytes, if its files do not say their rows)
    - `engines`: the versions of the engines that compute
    - `parameters`: a digest of the values of its parameters, as they came; empty if none came
    """

    plan: str
    meaning: str
    options: Mapping[str, Any]
    tables: Mapping[str, int]
    engines: Mapping[str, str]
    parameters: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A checkpoint of `task` at the barrier of `epoch`.

    `sources` has the last sealed split number of each source, `transactions` the last transaction of each application.
    """

    name: str
    epoch: int
    taken_us: int
    watermark: int | None
    sources: Mapping[str, int]
    origin: Origin
    tables: tuple[StateTable, ...]
    transactions: tuple[Record, ...] = ()
    task: str = NO_TASK

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for table in self.tables for part in table.parts)

    @property
    def size(self) -> int:
        """Bytes of its files, including files shared with other checkpoints."""
        return sum({part.digest: part.size for part in self.parts}.values())


def encode(manifest: Manifest) -> bytes:
    body = asdict(manifest)
    return json.dumps({"format": FORMAT, "digest": _digest(body), "checkpoint": body}, indent=1).encode()


def decode(data: bytes, what: str) -> Manifest:
    """The manifest in these bytes.

    Raises `CheckpointError`, which calls the checkpoint `what`, if they are damaged or of a newer format.
    """
    try:
        document = json.loads(data)
        version = document["format"]
        if not isinstance(version, int) or version < 1:
            raise damaged(what, f"its manifest has format {version!r}, which is not a number from 1 on")
        if version > FORMAT:
            raise CheckpointError(
                f"checkpoint {what} has format {version}, and this version of Tidegate reads formats up to {FORMAT}"
                ": restore the checkpoint with the version that took it, or with a newer one",
                reason="CHECKPOINT_VERSION",
            )
        body = document["checkpoint"]
        if document["digest"] != _digest(body):
            raise damaged(what, "its manifest has changed since it was written: the digest differs")
        return _manifest(body)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(what, f"its manifest cannot be read ({error})") from error


def damaged(what: str, how: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {what} is damaged: {how}; restore an earlier checkpoint", reason="CHECKPOINT_DAMAGED"
    )


def _manifest(body: Mapping[str, Any]) -> Manifest:
    tables = tuple(
        StateTable(**{**table, "parts": tuple(Part(**part) for part in table["parts"])}) for table in body["tables"]
    )
    transactions = tuple(Record(**record) for record in body.get("transactions", ()))
    return Manifest(**{**body, "origin": Origin(**body["origin"]), "tables": tables, "transactions": transactions})


def _digest(body: Mapping[str, Any]) -> str:
    return digest(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest(data: bytes | pa.Buffer = b"") -> hashlib.blake2b:
    """The digest of a checkpoint's bytes, to which more can be added."""
    return hashlib.blake2b(data, digest_size=32)
