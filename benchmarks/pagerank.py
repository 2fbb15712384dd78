"""Case `pagerank`: a loop in which every row changes in every round, a fixed number of rounds.

The loop's plan is beside DuckDB, as a statement a round and as one recursive common table expression, and beside scipy,
which multiplies a sparse matrix with the vector of ranks. All of them start from the edges: they count how many leave
each node, and share its rank among them. DuckDB has them loaded before; scipy is there a second time with its matrix
made before. All start from the ranks that nodes are jumped to with, and hand on `rounds` times. Every contender's ranks
are held to those that NumPy adds up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

import tidegate

from . import loop_plans
from .measure import interleave
from .report import Report, spread_text
from .settings import Settings

OURS = "Tidegate"
STATEMENTS = "DuckDB, a statement a round"
RECURSIVE = "DuckDB, recursive CTE"
SCIPY = "scipy, from the edges"
PRODUCTS = "scipy, the products alone"

ROUNDS = 20
DAMPING = 0.85
TOLERANCE = 1e-9

Ranks = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Web:
    """Edges from `a` to `b` between the nodes below `nodes`, and what each node is jumped to with."""

    edges: pa.Table
    nodes: int

    @property
    def jump(self) -> float:
        return (1 - DAMPING) / self.nodes

    def tables(self) -> dict[str, pa.Table]:
        jumps = pa.table({"a": np.arange(self.nodes), "jump": np.full(self.nodes, self.jump)})
        return {"edges": self.edges, "nodes": jumps}

    def ends(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return self.edges["a"].to_numpy(), self.edges["b"].to_numpy()

    def shares(self) -> Ranks:
        """What each edge hands on of a rank."""
        start, _ = self.ends()
        shares: Ranks = DAMPING / np.bincount(start, minlength=self.nodes)[start]
        return shares


def run(settings: Settings) -> Report:
    nodes = settings.ranked_edges // 10
    web = Web(loop_plans.random_graph(nodes, settings.ranked_edges), nodes)
    expected = added_up(web)
    with ExitStack() as stack:
        contenders, missing = set_up(web, stack)
        for name, ranks in contenders.items():
            check(name, ranks(), expected)
        runs = interleave(contenders, settings.rounds)
    rows = [
        [
            name,
            spread_text(runs.spread(name).scaled(1e3)),
            *(spread_text(ratio) if (ratio := runs.ratio(name, to)) else "-" for to in (STATEMENTS, SCIPY)),
        ]
        for name in runs.seconds
    ]
    return Report(
        case="pagerank",
        title=f"PageRank, {web.edges.num_rows:,} edges, {web.nodes:,} nodes, {ROUNDS} rounds, one channel",
        header=["", "ms", f"over {STATEMENTS}", f"over {SCIPY}"],
        rows=rows,
        notes=[*(f"{name}: {why}" for name, why in runs.left_out.items()), *missing],
        figures={"seconds": runs.seconds},
    )


def set_up(web: Web, stack: ExitStack) -> tuple[dict[str, Callable[[], Ranks]], list[str]]:
    """Contenders that give the rank of each node in order, and a line for each that is not there."""
    loop = loop_plans.ranks(DAMPING, ROUNDS + 1)
    tables = web.tables()
    client = stack.enter_context(tidegate.local())
    task = stack.enter_context(client.create_task(loop.plan, channels=1))
    connection = stack.enter_context(duckdb.connect(config={"threads": 1}))
    for name, table in tables.items():
        connection.register("given", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    contenders: dict[str, Callable[[], Ranks]] = {
        OURS: partial(epoch, task, tables),
        STATEMENTS: partial(statements, connection, loop.sql),
        RECURSIVE: partial(recursive, connection),
    }
    if find_spec("scipy") is None:
        return contenders, ["scipy is left out: it is not installed"]
    return contenders | {SCIPY: partial(products, web), PRODUCTS: partial(products, web, matrix(web))}, []


def epoch(task: tidegate.Task, tables: Mapping[str, pa.Table]) -> Ranks:
    return in_order(task.run_epoch(dict(tables)).table())


def statements(connection: duckdb.DuckDBPyConnection, next_ranks: str) -> Ranks:
    connection.execute(f"CREATE OR REPLACE TABLE links AS {_LINKS}")
    connection.execute("CREATE OR REPLACE TABLE ranks AS SELECT a, jump AS rank FROM nodes")
    for _ in range(ROUNDS):
        connection.execute(f"CREATE OR REPLACE TABLE ranks AS {next_ranks}")
    return in_order(connection.sql("FROM ranks").to_arrow_table())


def recursive(connection: duckdb.DuckDBPyConnection) -> Ranks:
    """Its step has `ranks` once, so each node gives itself what it is jumped to with, by an edge of its own."""
    ranked = connection.sql(
        f"""WITH RECURSIVE links AS MATERIALIZED (
            SELECT a, b, share, 0::DOUBLE AS jump FROM ({_LINKS}) UNION ALL SELECT a, a, 0, jump FROM nodes
        ), ranks(number, a, rank) AS (
            SELECT 0, a, jump FROM nodes
            UNION ALL
            SELECT number + 1, b, sum(rank * share + jump) FROM ranks JOIN links USING (a)
            WHERE number < {ROUNDS} GROUP BY number, b
        )
        SELECT a, rank FROM ranks WHERE number = {ROUNDS}"""
    )
    return in_order(ranked.to_arrow_table())


_LINKS = (
    f"SELECT a, b, {DAMPING} / degree AS share "
    "FROM edges JOIN (SELECT a, count(*) AS degree FROM edges GROUP BY a) USING (a)"
)


def products(web: Web, made_before: Any = None) -> Ranks:
    shared = matrix(web) if made_before is None else made_before
    ranks = np.full(web.nodes, web.jump)
    for _ in range(ROUNDS):
        ranks = web.jump + shared @ ranks
    return ranks


def matrix(web: Web) -> Any:
    """What each node hands on to which, a column a node."""
    from scipy.sparse import csr_array

    start, end = web.ends()
    return csr_array((web.shares(), (end, start)), shape=(web.nodes, web.nodes))


def added_up(web: Web) -> Ranks:
    start, end = web.ends()
    shares = web.shares()
    ranks = np.full(web.nodes, web.jump)
    for _ in range(ROUNDS):
        ranks = web.jump + np.bincount(end, weights=ranks[start] * shares, minlength=web.nodes)
    return ranks


def in_order(table: pa.Table) -> Ranks:
    """The ranks by node; every node must have one."""
    nodes, ranks = table.column(0).to_numpy(), table.column(1).to_numpy()
    ordered: Ranks = np.full(len(nodes), np.nan)
    ordered[nodes] = ranks
    return ordered


def check(name: str, ranks: Ranks, expected: Ranks) -> None:
    if len(ranks) != len(expected) or not np.allclose(ranks, expected, rtol=TOLERANCE, atol=0):
        raise AssertionError(f"{name} has wrong ranks")
