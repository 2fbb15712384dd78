"""Clients' files, kept in the task's folder and counted against its quota until the task is deleted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from ..proto.errors import Exhausted, InvalidRequest
from .store import Quota, SpillFiles


def keep_upload(files: SpillFiles, quota: Quota, name: str, chunks: Iterable[bytes]) -> str:
    """Write the chunks to a file of the task; its path ends as `name` does, so that its format shows."""
    ending = "".join(PurePosixPath(name.replace("\\", "/")).suffixes[-2:])
    if not all(character.isalnum() or character == "." for character in ending):
        raise InvalidRequest(f"an uploaded file's name must end in a plain suffix such as .parquet, not {name!r}")
    path = files.new_path(f".upload{ending}")
    taken = 0
    try:
        with path.open("xb") as sink:
            for chunk in chunks:
                if not quota.take(len(chunk)):
                    raise Exhausted(
                        f"the upload of {name!r} does not fit in the task's spill_quota ({quota.limit} bytes)",
                        reason="UPLOAD_TOO_LARGE",
                    )
                taken += len(chunk)
                sink.write(chunk)
    except BaseException:
        quota.give(taken)
        path.unlink(missing_ok=True)
        raise
    quota.keep(taken)
    files.check_kept()
    return str(path)
