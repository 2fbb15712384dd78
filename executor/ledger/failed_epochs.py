"""Epochs that have failed, and splits that a recovered task is to go on without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...proto.errors import NotFound
from .ledger_change import FailedEpoch, Recovered
from .split_book import AcceptedSplit, SourceLedger


@dataclass(slots=True)
class Failures:
    """The `known` epochs of a task that have failed: computed again, they fail in the same way. `requests` are the keys
    of the recoveries so far.
    """

    known: dict[int, FailedEpoch] = field(default_factory=dict)
    requests: set[str] = field(default_factory=set)

    def recover(self, recovered: Recovered, sources: Mapping[str, SourceLedger]) -> None:
        """Let a task that has failed go on: some splits have no rows from here on."""
        self.known.pop(recovered.epoch, None)
        self.requests.add(recovered.request)
        for left_out in recovered.left_out:
            split = sources[left_out.source].splits.get(left_out.sequence)
            if split is not None:
                split.left_out = True


def split_to_leave_out(source: SourceLedger, sequence: int) -> AcceptedSplit:
    """A split that may be left out. Raises `NotFound` if the task does not have it any more, or not yet."""
    split = source.splits.get(sequence)
    if split is None:
        raise NotFound(
            f"split {sequence} of source {source.name!r} cannot be left out: the task has no such split, or its epoch "
            "is acknowledged",
            reason="UNKNOWN_SPLIT",
        )
    return split
