"""Keeps what can be reached up to date by Pathway's `iterate`, whenever it is told a change on standard input.

`python pathway_view.py FOLDER`, where the folder has edges.csv and roots.csv. It needs Pathway alone. First it takes
the edges, then each line `a b weight`, every one of them as a commit; it answers with the seconds until the view was up
to date, and, when there are no more lines, with the number of rows.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pathway
from pathway_peer import distinct  # type: ignore[import-not-found]

PATIENCE = 300


class Edge(pathway.Schema):  # type: ignore[misc]
    """Two edges between the same nodes are two rows."""

    number: int = pathway.column_definition(primary_key=True)
    a: int
    b: int


class Changes(pathway.io.python.ConnectorSubject):  # type: ignore[misc]
    """`ended` is released when an epoch is complete."""

    _deletions_enabled = True

    def __init__(self, edges: Any, ended: threading.Semaphore) -> None:
        super().__init__()
        self._edges = edges
        self._ended = ended
        self._numbers: dict[tuple[int, int], list[int]] = {}
        self._next = 0

    def run(self) -> None:
        for a, b in self._edges.itertuples(index=False):
            self._insert(int(a), int(b))
        self._answer()
        for line in sys.stdin:
            a, b, weight = map(int, line.split())
            if weight > 0:
                self._insert(a, b)
            else:
                self._remove_inner(None, {"number": self._numbers[a, b].pop(), "a": a, "b": b})
            self._answer()

    def _insert(self, a: int, b: int) -> None:
        self._numbers.setdefault((a, b), []).append(self._next)
        self.next(number=self._next, a=a, b=b)
        self._next += 1

    def _answer(self) -> None:
        started = time.perf_counter()
        self.commit()
        if not self._ended.acquire(timeout=PATIENCE):
            raise TimeoutError("Pathway has not completed the epoch")
        print(time.perf_counter() - started, flush=True)


class View:
    """The rows of the view, and one row more, which every change of an edge changes: once the time is closed at which
    that row changed, the epoch is complete, whether or not the view has changed.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.ended = threading.Semaphore(0)
        self._counted = False

    def change(self, key: object, row: dict[str, int], time: int, is_addition: bool) -> None:  # noqa: ARG002
        if row["edges"]:
            self._counted = True
        else:
            self.rows += 1 if is_addition else -1

    def close(self, time: int) -> None:  # noqa: ARG002 - Pathway's signature
        if self._counted:
            self._counted = False
            self.ended.release()


def main() -> None:
    folder = Path(sys.argv[1])
    view = View()
    subject = Changes(pd.read_csv(folder / "edges.csv"), view.ended)
    edges = pathway.io.python.read(subject, schema=Edge, autocommit_duration_ms=None)
    links = edges.select(edges.a, edges.b)
    start = distinct(pathway.debug.table_from_pandas(pd.read_csv(folder / "roots.csv")), "a")
    reached = pathway.iterate(further, reached=pathway.iterate_universe(start), links=links, start=start).reached
    counts = links.reduce(a=pathway.reducers.count())
    both = pathway.Table.concat_reindex(reached.select(reached.a, edges=0), counts.select(counts.a, edges=1))
    pathway.io.subscribe(both, on_change=view.change, on_time_end=view.close)
    pathway.run(monitoring_level=pathway.MonitoringLevel.NONE)
    print(view.rows, flush=True)


def further(reached: Any, links: Any, start: Any) -> dict[str, Any]:
    """From the start anew in each round: what is reached by itself alone must go when an edge into it does."""
    onward = reached.join(links, reached.a == links.a).select(a=links.b)
    return {"reached": distinct(start.concat_reindex(onward), "a"), "links": links, "start": start}


if __name__ == "__main__":
    main()
