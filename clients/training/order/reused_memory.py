"""Memory of arrays of some hundred KiB, used again once nobody has an array in it any more.

Memory that comes fresh from the system costs more than to write rows into it: the system clears each of its pages.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any, Final

import numpy as np
import numpy.typing as npt

WORTH_BYTES: Final = 128 << 10
"""Smaller arrays are in memory that the process keeps anyway."""
HUGE_BYTES: Final = 4 << 20
"""Larger arrays come fresh at little cost: NumPy asks the system for huge pages."""
MOST_LARGER: Final = 2
"""An array takes memory of up to so many times its own size."""


class ReusedMemory:
    """Gives memory to arrays, on any thread. Keeps no more than the arrays that there were at one time took."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """An array with any values in it. Its memory is its own until the array and all views of it are gone."""
        size = math.prod(shape) * dtype.itemsize
        if not WORTH_BYTES <= size <= HUGE_BYTES:
            return np.empty(shape, dtype)
        memory = self._taken(size)
        # Not over an array, whose views would keep that one alive, but not this one.
        array: npt.NDArray[Any] = np.ndarray(shape, dtype, buffer=memory)
        weakref.finalize(array, self._free.append, memory).atexit = False
        return array

    def _taken(self, size: int) -> bytearray:
        with self._lock:  # memory that comes back meanwhile gets behind what is looked at
            for at, memory in enumerate(self._free):
                if size <= len(memory) <= MOST_LARGER * size:
                    return self._free.pop(at)
            if self._free:
                self._free.pop(0)
        return bytearray(size)
