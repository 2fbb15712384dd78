"""The files that a scan of Spark's reads, as its index lists them.

No job runs, and nothing of the scan is compiled. A folder takes a few calls into the JVM, for any number of files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from ..data_frames import elements

_STATUS: Final = re.compile(
    r"FileStatusWithMetadata\(\w+\{path=(.*?); isDirectory=false; length=(\d+);.*?; modification_time=(\d+);", re.DOTALL
)
"""The JVM's text of a listed file.

One text has all files of a folder; asking each file for path, size and time would take longer than reading its footer.
"""


class NotPlain(Exception):
    """The DataFrame is not files read as they are. The message is a sentence for the report."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that Spark would read, as it was when Spark listed it.

    `partition` has Spark's values of the wanted partition columns: numbers, days since 1970, texts.
    """

    path: str
    size: int
    modified_ms: int
    partition: tuple[int | str | None, ...]


def listed(scan: Any, wanted: Sequence[str]) -> tuple[ListedFile, ...]:
    """The files that partition filters leave, by path, with the values of the `wanted` partition columns."""
    if not scan.subqueries().isEmpty():
        raise NotPlain("a filter has a subquery, which must be computed")
    relation = scan.relation()
    fields = {field.name(): (at, field.dataType()) for at, field in enumerate(relation.partitionSchema().fields())}
    partition_fields = [fields[name] for name in wanted]
    listed_files: list[ListedFile] = []
    for folder in elements(relation.location().listFiles(scan.partitionFilters(), scan.dataFilters())):
        values = folder.values() if partition_fields else None
        partition = tuple(_value(values, at, type_) for at, type_ in partition_fields)
        listed_files.extend(_files(folder.files(), partition))
    listed_files.sort(key=lambda file: file.path.encode().split(b"/"))
    for file, following in pairwise(listed_files):
        if file.path == following.path:
            raise NotPlain(f"the DataFrame reads {file.path} more than once")
    return tuple(listed_files)


def _files(statuses: Any, partition: tuple[int | str | None, ...]) -> Iterator[ListedFile]:
    """The files that are not empty. Spark reads nothing of empty ones, whatever their format."""
    read = _STATUS.findall(statuses.mkString("\n"))
    if len(read) != statuses.size():
        raise NotPlain("Spark lists the files in a way that Tidegate does not know")
    for path, size, modified in read:
        if int(size):
            yield ListedFile(_local(path), int(size), int(modified), partition)


def _value(values: Any, at: int, type_: Any) -> int | str | None:
    value = values.get(at, type_)
    return value if value is None or isinstance(value, int) else str(value)


def _local(path: str) -> str:
    scheme, _, rest = path.partition(":")
    if scheme != "file" or not rest.startswith("/") or (rest.startswith("//") and not rest.startswith("///")):
        raise NotPlain(f"the files are in {path}, which is not in a file system of this machine")
    return rest.removeprefix("//")
