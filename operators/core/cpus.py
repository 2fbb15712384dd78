"""Number of CPUs that this process may use, which in a container may be a small part of the machine's."""

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


def _runnable() -> int:
    if hasattr(os, "process_cpu_count"):  # Python 3.13
        return int(os.process_cpu_count() or 1)
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(root: Path) -> Iterator[tuple[int, int]]:
    """(quota, period) in microseconds, of the process's control group and of those that it is in."""
    for controllers, group in _groups(root):
        for folder in (group, *group.parents):
            inside = str(folder).lstrip("/")
            if controllers:
                version_1 = root / "sys/fs/cgroup/cpu" / inside
                numbers = f"{_text(version_1 / 'cpu.cfs_quota_us')} {_text(version_1 / 'cpu.cfs_period_us')}".split()
            else:
                numbers = _text(root / "sys/fs/cgroup" / inside / "cpu.max").split()
            # "max", or -1, is no quota.
            if len(numbers) == 2 and all(number.isdecimal() and int(number) > 0 for number in numbers):
                yield int(numbers[0]), int(numbers[1])


def _groups(root: Path) -> Iterator[tuple[str, PurePosixPath]]:
    """(controllers, group) of each hierarchy that may bound CPUs; version 2 of control groups names no controllers."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers or "cpu" in controllers.split(","):
            yield controllers, PurePosixPath(group)


def _text(path: Path) -> str:
    """The text of a file, empty if there is none: systems without control groups have no quota."""
    with suppress(OSError):
        return path.read_text()
    return ""
