"""The rules for the batches of a streaming query, which are versions of an application: none twice, none left out."""

from __future__ import annotations

from ..proto.errors import Refused
from ..proto.values import Committed


def repeated(last: Committed | None, task: str, application: str, batch: int) -> Committed | None:
    """The task's record of the batch, if it is the last one that the task has. Refuses a batch from before it."""
    if last is not None and batch < last.version:
        raise Refused(
            f"task {task} already has batch {last.version} of application {application!r}, and the query would feed "
            f"batch {batch}: Spark repeats only the last batch, so the query runs on another checkpoint location, or "
            "on an older one; give the query another name (application=, or the option txnAppId)",
            reason="APPLICATION_REUSED",
        )
    return last if last is not None and batch == last.version else None


def batch_before(batch: int, *, gaps: bool) -> int | None:
    """The version that must be the application's last one; None where any may be."""
    return None if gaps or batch == 0 else batch - 1
