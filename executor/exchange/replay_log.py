"""The blocks of an exchange, kept for channels that may have to read them again.

A consumer that is made anew reads its slices from the first one. So each block stays until all consumers are done for
good: the first few in memory, the others in files of the task's folder. Where the quota has no room, everything is
dropped: nobody can read again, and nobody else is harmed.
"""

from __future__ import annotations

import threading
from typing import Final

import pyarrow as pa

from ...proto.errors import Exhausted
from ..runtime.batch_store import Holding, Quota, SpillFiles, SpillRun, Store
from .exchange_buffers import Block

_MEMORY: Final = 4 << 20
"""The bytes that stay in memory. Files of later blocks have about half as many."""


class ReplayLog:
    """The blocks, or parts of them, by producer and by their number in its stream. Thread-safe."""

    def __init__(self, quota: Quota, files: SpillFiles) -> None:
        self._store = Store(_MEMORY, quota)
        self._files = files
        self._blocks: dict[tuple[int, int], tuple[Block, Holding]] = {}
        self._lock = threading.Lock()
        self._adding = threading.Lock()
        self._ended = False

    @property
    def whole(self) -> bool:
        """True as long as the log has every block that was added."""
        return not self._ended

    def add(self, producer: int, part_number: int, block: Block) -> None:
        """Keep the block, which nobody has read yet."""
        holding = Holding(block.holding.batches())
        with self._adding:
            with self._lock:
                if self._ended:
                    return
                if self._store.fits(holding):
                    self._store.put(holding)
                    self._blocks[producer, part_number] = block, holding
                    return
                run = self._store.take_run(holding)
            if run is None or not self._spill(run):
                self.end()
                return
            with self._lock:
                if self._ended:
                    self._store.free(holding)
                else:
                    self._blocks[producer, part_number] = block, holding

    def _spill(self, run: SpillRun) -> bool:
        try:
            file = self._files.write(run)
        except Exhausted:
            with self._lock:
                self._store.give_back(run)
            return False
        with self._lock:
            self._store.spilled(run, file)
        return True

    def slice(self, consumer: int, producer: int, part_number: int) -> tuple[int, pa.RecordBatch]:
        """A consumer's slice of a block, with the block's number. Raises OSError if the block is not kept any more."""
        with self._lock:
            kept = self._blocks.get((producer, part_number))
            if kept is None:
                raise OSError("the task's spill_quota has no room to keep what a channel may read again")
            block, holding = kept
            return block.number, holding.batch(block.position(consumer))

    def end(self) -> None:
        """Drop all blocks. More than once is harmless."""
        with self._lock:
            self._ended = True
            for _, holding in self._blocks.values():
                self._store.free(holding)
            self._blocks.clear()
