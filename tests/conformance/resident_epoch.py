"""One epoch in a process of its own, run by `resident`: reads what to run, prints the most that was resident."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import tidegate


def main(asked: dict[str, Any]) -> list[object]:
    """The peak, rows that came, bytes that spilled, and the error where it failed."""
    rows = spilled = 0
    error = ""
    plan = asked["plan"] if asked["is_text"] else base64.b64decode(asked["plan"])
    with tidegate.local() as client, client.create_task(plan, **asked["options"]) as task:
        try:
            for name in task.sources:
                task.add_split(name, asked["files"][name])
            task.request_barrier()
            task.no_more_splits()
            for batch in task.batches():
                rows += batch.num_rows
                spilled = max(spilled, task.statistics().spilled_bytes)
        except tidegate.TidegateError as failure:
            error = f"{failure.reason or type(failure).__name__}: {failure}"
    return [peak(), rows, spilled, error]


def peak() -> int:
    """The most that was resident in this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [size] = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(size) * 1024


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
