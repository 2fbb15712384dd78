"""A large table that a plan reads row by row: each partition is a share of the table's files, in order.

The executor that reads a share computes its rows itself, if it finds the files that the server has found: the same
sizes, times and ends. Otherwise the server computes them, in a task for this share. No partition waits for another one,
and nobody keeps the rows.
"""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from google.protobuf.message import Message
from substrait.proto import Expression, Plan

from ...proto.allocator import tune_allocator
from ...proto.errors import TidegateError
from ...proto.service import Service
from ...proto.values import (
    Capabilities,
    Explanation,
    FileSplit,
    FoundFile,
    PlanBytes,
    Reader,
    TaskOptions,
)
from ...transport.remote import RemoteService
from .shared_results import EPOCH, FILES_CHANGED, Rows, as_planned, batches, changed, fill, reading

LEAST_BYTES: Final = 32 << 20
"""Smaller tables are worth no engine in the executors."""

_HELD_BYTES: Final = 8 << 20
"""The rows that a share's task computes before they are read. More would leave the caches before Spark has them, and
take fresh memory, which costs more than to decode them. The task reads no file ahead for the same reason."""

_CLOCK: Final = ("executionContextVariable", "execution_context_variable")
_BY_ROW: Final = ("read ", "project", "filter")


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of a file, and the digest of the file's end."""

    split: FileSplit
    ending: str


@dataclass(frozen=True, slots=True)
class Share:
    """Parts of a table's files, which the service `made_by` has found, and the options of its tasks."""

    source: str
    parts: tuple[Part, ...]
    options: TaskOptions
    made_by: Capabilities


def reads_row_by_row(plan: PlanBytes, explanation: Explanation) -> bool:
    """Tests whether each row of the result comes from one row of the plan's only source, by filters and projections,
    whenever it is computed, and in the order of the source.
    """
    if _reads_clock(plan):
        return False
    document = json.loads(explanation.json)
    reads = [(source["kind"], len(source["reads"])) for source in document["sources"]]
    relations = [
        relation["relation"]
        for pipeline in document["pipelines"]
        for fragment in pipeline["fragments"]
        for relation in fragment["relations"]
    ]
    return (
        reads == [("fed", 1)]  # a union reads a table twice: first all rows of one branch, then those of the other
        and all(pipeline["start"] == "piece" for pipeline in document["pipelines"])
        and all(relation.startswith(_BY_ROW) for relation in relations)
    )


def _reads_clock(plan: PlanBytes) -> bool:
    if plan.json is not None:
        return any(clock in plan.json for clock in _CLOCK)
    return _has_clock(Plan.FromString(plan.binary or b""))


def _has_clock(message: Message) -> bool:
    """True if the message has a value of the clock. Relations of extensions are not looked into: they are in no plan
    that is read row by row.
    """
    if isinstance(message, Expression.ExecutionContextVariable):
        return True
    inner = (value for field, value in message.ListFields() if field.message_type is not None)
    parts = (part for value in inner for part in ([value] if isinstance(value, Message) else value))
    return any(isinstance(part, Message) and _has_clock(part) for part in parts)


def parts_of(files: Sequence[FoundFile], count: int) -> list[tuple[Part, ...]] | None:
    """The shares of so many partitions, of about as many rows each; None if the files cannot be shared out, or are few
    bytes.
    """
    if not files or sum(file.size for file in files) < LEAST_BYTES:
        return None
    if any(file.format != "parquet" or file.folders for file in files) or not any(file.pieces for file in files):
        return None
    total = sum(end - first for file in files for first, end in file.pieces)
    shares: list[list[Part]] = [[] for _ in range(count)]
    before = 0
    for file in files:
        of_share: dict[int, tuple[int, int]] = {}
        # A file without row groups is read as a whole: if it has none because it could not be opened, its read fails.
        for first, end in file.pieces or ((0, 0),):
            middle = before + (end - first) / 2
            share = min(int(middle * count / max(total, 1)), count - 1)
            begun, _ = of_share.get(share, (first, end))
            of_share[share] = begun, end
            before += end - first
        for share, part in of_share.items():
            rows = part if len(of_share) > 1 else None
            split = FileSplit(file.path, format="parquet", rows=rows, version=file.version)
            shares[share].append(Part(split, file.ending))
    return list(map(tuple, shares))


def share_rows(service: RemoteService, plan: PlanBytes, share: Share) -> Generator[pa.RecordBatch]:
    """The rows of a share, computed here if this process sees the files, else by the service."""
    if not share.parts:
        return
    with as_planned(), _here(plan, share) as own:
        if own is not None:
            yield from _read(*own)
            return
        task = _begun(service, plan, share)
        try:
            with reading(service, task, Reader(1, 1), share.options.idle_seconds):
                yield from _read(service, task)
        except TidegateError:
            with suppress(TidegateError):
                service.delete_task(task)  # Spark's next attempt makes another one
            raise


def _read(service: Service, task: str) -> Iterator[pa.RecordBatch]:
    with closing(batches(service, Rows(task, EPOCH, 0, None), forget=True)) as rows:
        yield from rows


@contextmanager
def _here(plan: PlanBytes, share: Share) -> Iterator[tuple[Service, str] | None]:
    """A service of this process, and its task of the share; None if the process lacks the files, or the memory."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        yield None  # spark.executor.pyspark.memory: an engine does not fit
        return
    roots = sorted({os.path.dirname(part.split.path) for part in share.parts})
    if not all(map(os.path.isdir, roots)):
        yield None
        return
    from ...executor.service.embedded import open_service

    tune_allocator()
    try:
        service = open_service(roots=list(map(Path, roots)), threads=1, reads_ahead=False)
    except (TidegateError, OSError):
        yield None  # there is no folder for temporary files
        return
    with closing(service):
        # Spark may pause for long.
        options = replace(share.options, idle_seconds=0.0, output_bytes=min(share.options.output_bytes, _HELD_BYTES))
        yield _own_task(service, plan, replace(share, options=options))


def _own_task(service: Service, plan: PlanBytes, share: Share) -> tuple[Service, str] | None:
    here = service.capabilities()
    if (here.version, here.engines) != (share.made_by.version, share.made_by.engines):
        return None
    with suppress(TidegateError):  # the service reads the files, or says what is wrong with them
        return service, _begun(service, plan, share)
    return None


def _begun(service: Service, plan: PlanBytes, share: Share) -> str:
    # The task waits for its reader when `output_bytes` are full.
    options = replace(share.options, channels=1, auto_cores=0, spill_quota=0)
    task = service.create_task(plan, options, {}).id
    try:
        for part in share.parts:
            _check_ending(service, task, share.source, part)
        fill(service, task, ((share.source, part.split) for part in share.parts))
    except TidegateError:
        service.delete_task(task)
        raise
    return task


def _check_ending(service: Service, task: str, source: str, part: Part) -> None:
    files = service.find_files(task, source, replace(part.split, rows=None), pieces=True)
    if [file.ending for file in files] != [part.ending]:
        raise changed(f"{FILES_CHANGED} ({part.split.path} is another one, or cannot be opened any more)")
