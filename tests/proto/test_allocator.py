"""The tuning of glibc's allocator, in a process of its own, because it cannot be taken back."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, threading
from tidegate.proto.allocator import tune_allocator
assert tune_allocator()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.fdopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.fflush.argtypes = [ctypes.c_void_p]
gate = threading.Barrier(32)
def take():
    libc.malloc(1 << 20)
    gate.wait(60)
threads = [threading.Thread(target=take) for _ in range(32)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
out = libc.fdopen(1, b"w")
libc.malloc_info(0, out)
libc.fflush(out)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the allocator is glibc's")
def test_many_threads_share_one_arena() -> None:
    child = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=True)
    assert child.stdout.count("<heap nr=") == 1
