"""Runs a loop by Pathway's `iterate` whenever it is asked on standard input, and answers with the number of rows.

`python pathway_peer.py (reach|closure) FOLDER`, where the folder has edges.csv and roots.csv. It needs Pathway alone.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pathway


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    edges = pd.read_csv(folder / "edges.csv")
    roots = pd.read_csv(folder / "roots.csv") if kind == "reach" else None
    print("ready", flush=True)
    for _ in sys.stdin:
        table = reachable(edges, roots) if kind == "reach" else closure(edges)
        print(len(pathway.debug.table_to_pandas(table)), flush=True)


def reachable(edges: Any, roots: Any) -> Any:
    links = pathway.debug.table_from_pandas(edges)

    def further(reached: Any, links: Any) -> dict[str, Any]:
        next_ = reached.join(links, reached.a == links.a).select(a=links.b)
        return {"reached": distinct(reached.concat_reindex(next_), "a"), "links": links}

    start = distinct(pathway.debug.table_from_pandas(roots), "a")
    return pathway.iterate(further, reached=pathway.iterate_universe(start), links=links).reached


def closure(edges: Any) -> Any:
    links = pathway.debug.table_from_pandas(edges)

    def longer(paths: Any, links: Any) -> dict[str, Any]:
        next_ = paths.join(links, paths.b == links.a).select(a=paths.a, b=links.b)
        return {"paths": distinct(paths.concat_reindex(next_), "a", "b"), "links": links}

    paths = pathway.iterate_universe(distinct(links, "a", "b"))
    return pathway.iterate(longer, paths=paths, links=links).paths


def distinct(table: Any, *columns: str) -> Any:
    """One of each row, which is also its id: what does not change from round to round ends the loop."""
    named = [getattr(table, column) for column in columns]
    return table.groupby(*named).reduce(*named)


if __name__ == "__main__":
    main()
