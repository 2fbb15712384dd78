"""Case `graph-pagerank`: PageRank as graphs of a user's own operators, beside a loop of DuckDB statements.

All start from the same edges, which are loaded before: as a table of DuckDB's, and as a Dataset with a partition a
channel, which has them in lists. Ours is the example `examples/page_rank.py`, one graph a round, whose Dataset is the
next one's input; a second contender feeds one long-lived task, an epoch a round, with the rows of the epoch before. The
statements are given what each page hands on along a link, so that a round is one join and one aggregate; they run a
second time over a table that is sorted by where links lead. The ranks of all are held to those that NumPy adds up.
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import tidegate

from . import loop_plans
from .measure import interleave
from .pagerank import ROUNDS, Ranks, check, in_order
from .report import Report, Target, spread_text
from .settings import TOP, Settings

GRAPHS = "Tidegate, a graph a round"
EPOCHS = "Tidegate, an epoch a round"
STATEMENTS = "DuckDB, a statement a round"
SORTED = "DuckDB, the same over sorted links"
AT_LEAST = 3.0
DAMPING = 0.85


def run(settings: Settings) -> Report:
    pages = settings.ranked_edges // 10
    links = loop_plans.random_graph(pages, settings.ranked_edges).rename_columns(["page", "to"])
    expected = added_up(links, pages)
    with ExitStack() as stack:
        contenders = set_up(links, pages, settings, stack)
        for name, ranks in contenders.items():
            check(name, ranks(), expected)
        runs = interleave(contenders, settings.rounds)
    return Report(
        case="graph-pagerank",
        title=f"PageRank as graphs, {links.num_rows:,} links, {pages:,} pages, {ROUNDS} rounds",
        header=["", "ms", "times faster than DuckDB"],
        rows=[
            [
                name,
                spread_text(runs.spread(name).scaled(1e3)),
                spread_text(ratio) if (ratio := runs.ratio(STATEMENTS, name)) else "-",
            ]
            for name in runs.seconds
        ],
        targets=[Target(f"{GRAPHS}: times faster", runs.ratio(STATEMENTS, GRAPHS), AT_LEAST, "at least")],
        notes=[f"{name}: {why}" for name, why in runs.left_out.items()],
        figures={"seconds": runs.seconds},
    )


def set_up(links: pa.Table, pages: int, settings: Settings, stack: ExitStack) -> dict[str, Callable[[], Ranks]]:
    """Contenders that give the rank of each page in order."""
    example = runpy.run_path(str(TOP / "examples" / "page_rank.py"))
    client = stack.enter_context(tidegate.local())
    cached = example["cache"](client, links)
    start = client.run_graph(example["first"](links, pages), keyed=tidegate.Hashed(("page",), example["CHANNELS"]))
    connection = stack.enter_context(duckdb.connect(config={"threads": settings.threads}))
    connection.register("given", links)
    connection.execute("CREATE TABLE links AS SELECT * FROM given")
    connection.execute('CREATE TABLE sorted_links AS SELECT * FROM given ORDER BY "to"')
    connection.execute(
        f"""CREATE TABLE pages AS SELECT range AS page, coalesce(links, 0) AS links FROM range({pages})
        LEFT JOIN (SELECT page, count(*) AS links FROM links GROUP BY page) ON range = page"""
    )
    return {
        GRAPHS: partial(graphs, client, example, cached, start, pages),
        EPOCHS: partial(epochs, client, example, cached, start, pages),
        STATEMENTS: partial(statements, connection, pages, "links"),
        SORTED: partial(statements, connection, pages, "sorted_links"),
    }


def graphs(
    client: tidegate.Client, example: dict[str, Any], links: tidegate.Dataset, ranks: tidegate.Dataset, pages: int
) -> Ranks:
    keyed = tidegate.Hashed(("page",), example["CHANNELS"])
    for _ in range(ROUNDS):
        ranks = client.run_graph(example["another"](links, ranks, pages), keyed=keyed)
    return in_order(ranks.table().select(["page", "rank"]))


def epochs(
    client: tidegate.Client, example: dict[str, Any], links: tidegate.Dataset, ranks: tidegate.Dataset, pages: int
) -> Ranks:
    graph = tidegate.TaskGraph()
    example["end_in_ranks"](graph, graph.source("ranks", example["RANKS"]), links, pages)
    current: Any = ranks
    with client.create_task(graph) as task:
        for _ in range(ROUNDS):
            current = task.run_epoch({"ranks": current}).table()
    return in_order(current.select(["page", "rank"]))


def statements(connection: duckdb.DuckDBPyConnection, pages: int, links: str) -> Ranks:
    connection.execute(f"CREATE OR REPLACE TABLE ranks AS SELECT *, 1 / {pages} AS rank FROM pages")
    for _ in range(ROUNDS):
        connection.execute(
            f"""CREATE OR REPLACE TABLE ranks AS
            WITH given AS (
                SELECT "to" AS page, sum(share) AS rank FROM {links}
                JOIN (SELECT page, rank / links AS share FROM ranks WHERE links > 0) USING (page) GROUP BY "to"
            ), lost AS (SELECT coalesce(sum(rank), 0) AS rank FROM ranks WHERE links = 0)
            SELECT page, links, {1 - DAMPING} / {pages}
                + {DAMPING} * (coalesce(given.rank, 0) + (SELECT rank FROM lost) / {pages}) AS rank
            FROM ranks LEFT JOIN given USING (page)"""
        )
    return in_order(connection.sql("SELECT page, rank FROM ranks").to_arrow_table())


def added_up(links: pa.Table, pages: int) -> Ranks:
    page, to = links["page"].to_numpy(), links["to"].to_numpy()
    many = np.bincount(page, minlength=pages)
    ranks = np.full(pages, 1 / pages)
    for _ in range(ROUNDS):
        received = np.bincount(to, (ranks / np.maximum(many, 1))[page], pages)
        ranks = (1 - DAMPING) / pages + DAMPING * (received + ranks[many == 0].sum() / pages)
    return ranks
