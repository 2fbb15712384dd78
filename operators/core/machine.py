"""The CPUs and the memory that this process may use, which in a container may be a small part of the machine's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

_ROOT: Final = Path("/")


def usable_cpus(root: Path = _ROOT) -> int:
    """The CPUs that the process may run on, or fewer if its control group has a quota (a container's limit of CPUs).

    A quota of one and a half CPUs counts as two. `root` is the folder with `proc` and `sys`.
    """
    return min([_runnable(), *(max(1, -(-quota // period)) for quota, period in _quotas(root))])


def usable_memory(root: Path = _ROOT) -> int:
    """The bytes of the machine's memory, or fewer if the process's control group has a limit (a container's limit of
    memory). `root` is the folder with `proc` and `sys`.
    """
    return min([_memory(), *_memory_limits(root)])


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _memory_limits(root: Path) -> Iterator[int]:
    """The limits of the process's control group and of those that it is in."""
    for version_1, folder in _folders(root, "memory"):
        limit = _text(folder / ("memory.limit_in_bytes" if version_1 else "memory.max")).strip()
        if limit.isdecimal():  # "max" is no limit
            yield int(limit)


def _runnable() -> int:
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return int(os.process_cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[tuple[int, int]]:
    """(quota, period) in microseconds, of the process's control group and of those that it is in."""
    for version_1, folder in _folders(root, "cpu"):
        if version_1:
            numbers = f"{_text(folder / 'cpu.cfs_quota_us')} {_text(folder / 'cpu.cfs_period_us')}".split()
        else:
            numbers = _text(folder / "cpu.max").split()
        # "max", or -1, is no quota.
        if len(numbers) == 2 and all(number.isdecimal() and int(number) > 0 for number in numbers):
            yield int(numbers[0]), int(numbers[1])


def _folders(root: Path, controller: str) -> Iterator[tuple[bool, Path]]:
    """The folders of the control groups that may bound what a controller counts, inner groups first. True for those of
    version 1, which have a folder for each controller; version 2 names no controllers.
    """
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        group = PurePosixPath(name)
        above = root / "sys/fs/cgroup" / (controller if controllers else "")
        for folder in (group, *group.parents):
            yield bool(controllers), above / str(folder).lstrip("/")


def _text(path: Path) -> str:
    """The text of a file, empty if there is none: systems without control groups have no quota."""
    with suppress(OSError):
        return path.read_text()
    return ""
