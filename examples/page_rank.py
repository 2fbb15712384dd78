"""PageRank: the links are cached once, in partitions, and each round is a graph.

A page gives its rank to the pages that it links to, in equal parts. A page without links gives its rank to all pages.
Every graph ends in a Dataset, which the next graph reads. All Datasets are partitioned by the hash of the page number,
into as many parts as a node has channels. So a channel reads its own part of links and pages, and all ranks; no row
moves between channels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import tidegate
from tidegate.graph import Stream

LINKS = pa.schema([("page", pa.int64()), ("to", pa.int64())])
RANKS = pa.schema([("page", pa.int64()), ("links", pa.int64()), ("rank", pa.float64())])
CHANNELS = 2
DAMPING = 0.85


class Start:
    """Gives each page with the number of its links and its first rank, which is the same for all pages."""

    def __init__(self, pages: int) -> None:
        self.links: npt.NDArray[np.int64] = np.zeros(pages, np.int64)
        self.mine: list[pa.Array] = []

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        for batch in batches:
            if stream == "pages":
                self.mine.append(batch["page"])
            else:
                self.links += np.bincount(batch["page"], minlength=len(self.links))

    def done(self, channel: int) -> pa.RecordBatch:
        pages = pa.concat_arrays([pa.array([], pa.int64()), *self.mine]).to_numpy()
        ranks = np.full(len(pages), 1 / len(self.links))
        return pa.record_batch([pages, self.links[pages], ranks], schema=RANKS)


class Round:
    """Computes the ranks after one more round. A channel gets all ranks, and the links that lead to its own pages."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.per_link = np.zeros(pages)  # the rank that a page gives along each of its links
        self.received = np.zeros(pages)
        self.lost = 0.0  # the rank of pages without links
        self.mine: list[pa.RecordBatch] = []

    def execute(self, batches: Sequence[pa.RecordBatch], stream: str, channel: int) -> None:
        for batch in batches:
            match stream:
                case "ranks":
                    page, links, rank = (column.to_numpy() for column in batch.columns)
                    self.per_link[page] = rank / np.maximum(links, 1)
                    self.lost += rank[links == 0].sum()
                case "pages":
                    self.mine.append(batch)
                case "links":
                    to, pages = batch["to"].to_numpy(), batch["pages"]
                    first = pages.offsets.to_numpy()[:-1] - pages.offsets[0].as_py()  # the start of each page's list
                    self.received[to] = np.add.reduceat(self.per_link[pages.flatten()], first)

    def done(self, channel: int) -> Iterator[pa.RecordBatch]:
        for mine in self.mine:
            received = self.received[mine["page"]] + self.lost / self.pages
            ranks = (1 - DAMPING) / self.pages + DAMPING * received
            yield pa.record_batch([mine["page"], mine["links"], ranks], schema=RANKS)


def page_rank(client: tidegate.Client, links: pa.Table, pages: int, rounds: int) -> tidegate.Dataset:
    """The ranks of the pages 0, 1, ..., `pages` - 1."""
    by_page = tidegate.Hashed(("page",), CHANNELS)
    cached = cache(client, links)
    ranks = client.run_graph(first(links, pages), keyed=by_page)
    for _ in range(rounds):
        ranks = client.run_graph(another(cached, ranks, pages), keyed=by_page)
    return ranks


def cache(client: tidegate.Client, links: pa.Table) -> tidegate.Dataset:
    """A list, for each page, of the pages that link to it. A partition has the pages of one channel."""
    lists = links.group_by("to", use_threads=False).aggregate([("page", "list")])  # in the same order each time
    return client.dataset(lists.rename_columns(["to", "pages"]), keyed=tidegate.Hashed(("to",), CHANNELS))


def first(links: pa.Table, pages: int) -> tidegate.TaskGraph:
    graph = tidegate.TaskGraph()
    streams = {
        "links": graph.read_arrow(links),
        "pages": graph.read_arrow(pa.table({"page": np.arange(pages)})),
    }
    graph.blocking("start", lambda: Start(pages), streams, partition="page", channels=CHANNELS, schema=RANKS)
    return graph


def another(links: tidegate.Dataset, ranks: tidegate.Dataset, pages: int) -> tidegate.TaskGraph:
    graph = tidegate.TaskGraph()
    end_in_ranks(graph, graph.read_dataset(ranks), links, pages)
    return graph


def end_in_ranks(graph: tidegate.TaskGraph, before: Stream, links: tidegate.Dataset, pages: int) -> None:
    graph.blocking(
        "round",
        lambda: Round(pages),
        {"ranks": before, "pages": before, "links": graph.read_dataset(links)},
        partition={"ranks": None, "pages": "page", "links": "to"},
        after={"links": "ranks"},
        channels=CHANNELS,
        schema=RANKS,
    )


def main() -> None:
    links = pa.table({"page": [1, 2, 3, 3, 4, 4, 5], "to": [0, 1, 1, 2, 1, 3, 1]}, schema=LINKS)
    with tidegate.local() as client:
        ranks = page_rank(client, links, pages=6, rounds=20)
    for row in ranks.table().sort_by([("rank", "descending"), ("page", "ascending")]).to_pylist():
        print(f"page {row['page']}: {row['rank']:.4f}")


if __name__ == "__main__":
    main()
