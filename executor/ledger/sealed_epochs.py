"""The epoch of every split that a source ever had, in little room: most sources get as many splits in each epoch."""

from __future__ import annotations

from array import array
from bisect import bisect_left


class SealedEpochs:
    """Epochs that follow one another and have as many splits each are a run, which takes three numbers. Epochs without
    a split of the source take nothing.
    """

    def __init__(self) -> None:
        self._epochs = array("q")
        self._lasts = array("q")
        self._firsts = array("q")

    def add(self, epoch: int, last: int) -> None:
        """The epoch's splits are those behind the epoch before, up to number `last`."""
        before = self._lasts[-1] if self._lasts else 0
        if last <= before:
            return
        if self._goes_on(epoch, last - before):
            self._epochs[-1], self._lasts[-1] = epoch, last
            return
        self._epochs.append(epoch)
        self._lasts.append(last)
        self._firsts.append(epoch)

    def _goes_on(self, epoch: int, splits: int) -> bool:
        """Whether the last run's next epoch has as many splits as each of those in it."""
        return bool(self._lasts) and epoch == self._epochs[-1] + 1 and splits == self._step(len(self._lasts) - 1)

    def _step(self, run: int) -> int:
        """How many splits each epoch of a run has."""
        before = self._lasts[run - 1] if run else 0
        return (self._lasts[run] - before) // (self._epochs[run] - self._firsts[run] + 1)

    def of(self, number: int) -> int:
        """The epoch of a split that has been sealed; of one before the task's start, that of its start."""
        run = bisect_left(self._lasts, number)
        before = self._lasts[run - 1] if run else 0
        return self._firsts[run] + (number - before - 1) // self._step(run)
