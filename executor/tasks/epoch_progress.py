"""An epoch that has begun: its next rows, the rows that wait for the output, and what is known of its end."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ...operators.writing.staged_write import Written
from ...proto.errors import InternalError, TidegateError
from ...proto.values import ErrorValue
from ..api.computation import Effect, EpochRun, Watermarks
from ..ledger.epoch import Epoch
from ..ledger.split_book import AcceptedSplit
from ..ledger.watermarks import barrier_watermark, said_by
from ..runtime.batch_store import Holding

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """The next thing to run: some splits ahead of the seal, or the sealed epoch."""

    epoch: Epoch
    splits: Mapping[str, Sequence[AcceptedSplit]]
    sealed: bool

    @property
    def watermarks(self) -> Watermarks:
        return said_by(self.splits, self.epoch.ended, self.epoch.said)


@dataclass(frozen=True, slots=True)
class EpochCheckpoint:
    """The outcome of an epoch's checkpoint: its id, or the reason why there is none."""

    id: str | None = None
    error: ErrorValue | None = None
    took_us: int = 0


@dataclass(slots=True)
class EpochProgress:
    """`ran` is the number of the last split of the early source that was run. With an `error` the rows are void."""

    epoch: Epoch
    ran: int
    run: EpochRun | None = None
    job: Job | None = None
    rows: Iterator[pa.RecordBatch] | None = None
    held: list[Holding] = field(default_factory=list)
    started_ns: int = field(default_factory=time.monotonic_ns)
    error: TidegateError | None = None
    written: Written | None = None
    checkpoint: EpochCheckpoint | None = None
    noted: bool = False

    @property
    def effect(self) -> Effect | None:
        """The epoch's effect outside of the task, if it is due: the rows are in place, and it is not committed yet."""
        if self.error is not None or self.run is None or self.written is not None:
            return None
        return self.run.effect

    @property
    def watermark(self) -> int | None:
        """The watermark that the epoch has made final; None if the epoch failed."""
        return None if self.error is not None or self.run is None else barrier_watermark(self.run.watermark)

    def drop(self) -> None:
        """Close the rows in progress. An error while closing is not the error of the epoch."""
        rows, self.rows, self.held = self.rows, None, []
        close = getattr(rows, "close", None)
        if close is not None:
            try:
                close()
            except Exception:  # noqa: BLE001
                _log.exception("closing a failed epoch failed too")
        if self.run is not None and self.run.effect is not None:
            self.run.effect.drop()


def error_for_user(error: Exception) -> TidegateError:
    """An error of the user's as it is, any other error as a bug of Tidegate."""
    if isinstance(error, TidegateError):
        return error
    _log.error("a bug in Tidegate: an epoch failed", exc_info=error)
    return InternalError(f"a bug in Tidegate ended the epoch ({type(error).__name__}); the log has the traceback")
