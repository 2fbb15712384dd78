"""Tuning of glibc's allocator for messages of about a megabyte: server and client call `tune_allocator()` at their
start.

By default glibc maps every block of that size afresh and unmaps it when it is freed, so each message pays for its page
faults again. Keeping the memory makes streams several times faster. The process then holds on to its peak memory; other
limits bound that peak. Blocks that are larger than those of an answer (8 MiB over Flight) go back as they are freed: a
few of them, freed on several threads, would be all that a small `memory_limit` leaves.

An arena holds on to its own peak, and each thread may have an arena of its own, up to eight for each core. A task's
work goes from thread to thread, so its memory would be held several times. One arena is enough: most large buffers are
pyarrow's and DuckDB's, which have allocators of their own, and each thread has a cache of small blocks.

Without glibc the call does nothing.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Callable

_M_TRIM_THRESHOLD = -1
_M_TOP_PAD = -2
_M_MMAP_THRESHOLD = -3
_M_ARENA_MAX = -8

_SETTINGS = (
    (_M_MMAP_THRESHOLD, 9 << 20),
    (_M_TRIM_THRESHOLD, (1 << 31) - 1),
    (_M_TOP_PAD, 64 << 20),
    (_M_ARENA_MAX, 1),
)

_OTHERS: list[Callable[[], None]] = []


@functools.cache
def tune_allocator() -> bool:
    """Tune the allocator; True where glibc took the settings. A second call changes nothing."""
    if not _is_glibc():
        return False
    mallopt = ctypes.CDLL(None).mallopt
    mallopt.argtypes = (ctypes.c_int, ctypes.c_int)
    mallopt.restype = ctypes.c_int
    return all(mallopt(parameter, value) == 1 for parameter, value in _SETTINGS)


def give_back() -> None:
    """Give memory that is free back to the system, as far as whole pages are free: a task of milliseconds."""
    if _is_glibc():
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
    for give in _OTHERS:
        give()


def also_give_back(give: Callable[[], None]) -> None:
    """Have `give_back` call `give` too, for an allocator that a library has of its own."""
    _OTHERS.append(give)


@functools.cache
def _is_glibc() -> bool:
    return platform.libc_ver()[0] == "glibc"
