"""The kinds of operators whose resident memory is measured: the plan of each, and the errors that it may end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import datafusion
import pyarrow as pa
import substrait.dataframe as sub
from datafusion.substrait import Serde
from google.protobuf.message import Message
from substrait.plan_pb2 import Plan

from tidegate import windows
from tidegate.relations import IndexLookupJoin, PackLists, Unnest, UserOperator

from ..executor import operated_plans as operated
from ..executor import plans
from ..loops.queries import Looped
from ..loops.queries import Query as LoopQuery
from ..on_channels import on_channels

WIDTHS: Final[Mapping[str, int]] = {"8 B": 8, "1 KB": 1_000, "100 KB": 100_000, "10 MB": 10_000_000}
SCHEMA: Final = pa.schema([("k", pa.int64()), ("g", pa.int64()), ("t", pa.string())])
"""`k` is the row's number, `g` one of seven, `t` a text of the width."""
SOURCES: Final = ("l", "r")
FED: Final = "lr"
Refused: TypeAlias = Mapping[str, str | tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A plan over `l`, and `r`, which has a fifth of its rows; or the SQL of a graph's node over `l`. `bound` are those
    that are the task's tables. `refused` are the reasons by which an epoch may fail at a width, because so much does
    not go to disk; all rows come at other widths.
    """

    plan: Callable[[], bytes | str]
    is_node: bool = False
    fed: str = "l"
    bound: str = ""
    layout: str = "parquet"
    refused: Refused = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


def refused(reason: str | tuple[str, ...], *widths: str) -> Refused:
    """The reason or reasons at these widths, or at every width."""
    return dict.fromkeys(widths or WIDTHS, reason)


STATE: Final = refused("STATE_TOO_LARGE")
STATEMENT: Final = refused(("STATE_TOO_LARGE", "MEMORY_LIMIT"))
"""A statement over a large partition may need more than a quarter of the limit."""
LOOP: Final = refused("MEMORY_LIMIT")
LONG_ROW: Final = refused("ROW_TOO_LARGE", "10 MB")
"""What an expression makes of a row may have an eighth of the limit."""
GROWN: Final = {**LOOP, **refused(("ROW_TOO_LARGE", "MEMORY_LIMIT"), "10 MB")}
"""Where a row fits, DuckDB may still have to hold too many: it keeps the texts that its statement makes itself."""
MANY: Final = refused("MEMORY_LIMIT", "8 B")
"""DuckDB does not join eleven million rows with two million in 64 MiB where both sides bring texts."""
CONTINUOUS: Final = {
    **STATE,
    **refused(("STATE_TOO_LARGE", "MEMORY_LIMIT"), "8 B", "1 KB"),
    **refused(("STATE_TOO_LARGE", "ROW_TOO_LARGE"), "10 MB"),
}
LONG_LINE: Final = refused("ROW_TOO_LARGE", "10 MB")
"""A line of text may have a sixteenth of the limit, and at least 4 MiB."""


def sql(text: str, fed: str = "l", layout: str = "parquet", refused: Refused | None = None, **options: Any) -> Kind:
    return Kind(plan=lambda: planned(text), fed=fed, layout=layout, refused=refused or {}, options=options)


def by_hand(relation: Callable[[], object], width: int, fed: str = "l", refused: Refused | None = None) -> Kind:
    names = [f"c{at}" for at in range(width)]
    return Kind(plan=lambda: str(plans.plan(relation(), *names).json), fed=fed, refused=refused or {})


def over(
    text: str,
    detail: Message,
    names: Sequence[str],
    refused: Refused | None = None,
    *,
    picked: tuple[int, Sequence[int]] | None = None,
    **options: Any,
) -> Kind:
    """A relation of Tidegate's own over the query's rows. `picked` are the number of its columns and those wanted."""

    def planned_over_rows() -> bytes:
        plan = Plan.FromString(planned(text))
        root = plan.relations[0].root
        relation = operated.operated(detail, root.input)
        root.input.CopyFrom(relation if picked is None else operated.picked(relation, *picked))
        root.names[:] = names
        return plan.SerializeToString()

    return Kind(plan=planned_over_rows, refused=refused or {}, options=options)


def unnested(refused: Refused, **options: Any) -> Kind:
    """A row for each part of a text."""
    parts = "SELECT k, string_to_array(t, 'a') AS parts FROM l"
    return over(parts, Unnest(columns=[1]), ["k", "part"], refused, picked=(3, [0, 2]), **options)


def looked_up(index: str, refused: Refused) -> Kind:
    """Each row with its row of the table `r`."""
    detail = IndexLookupJoin(keys=[IndexLookupJoin.Key(left=0, right=0)], type=IndexLookupJoin.TYPE_LEFT, index=index)
    columns = {"k": operated.I64, "g": operated.I64, "t": operated.TEXT}
    names = [f"c{at}" for at in range(2 * len(columns))]
    relation = operated.operated(detail, *(operated.read(source, columns) for source in SOURCES))
    return Kind(plan=lambda: operated.plan(relation, names), fed=FED, bound="r", refused=refused)


def built(build: Callable[[Any, Any], Any], fed: str = "l", refused: Refused | None = None, **options: Any) -> Kind:
    """What the builders of windows and of joins in time make of both sources, or of `l`."""

    def of_frames() -> bytes:
        frames = (sub.read_named_table(name, {"k": sub.i64, "g": sub.i64, "t": sub.string}) for name in SOURCES)
        return bytes(build(*frames).to_plan().SerializeToString())

    return Kind(plan=of_frames, fed=fed, refused=refused or {}, options=options)


def continuous(text: str, fed: str = "l") -> Kind:
    """A continuous task. Its state may be too large at every width."""
    return sql(text, fed, mode="continuous", refused=STATE)


def in_state(build: Callable[[Any, Any], Any], fed: str = "l") -> Kind:
    return built(build, fed, STATE, mode="continuous")


def loop(body: str, schema: pa.Schema, refused: Refused = LOOP, **options: Any) -> Kind:
    query = {"x": Looped(body, columns=schema)}
    return Kind(plan=lambda: _looped(query), refused=refused, options=options)


def node(statement: str, refused: Refused | None = None) -> Kind:
    return Kind(plan=lambda: statement, is_node=True, refused=refused or {})


READ: Final = "SELECT k, g, t FROM l"
TIMES: Final = "(60000 / character_length(t) + 1)"
LONG: Final = f"repeat(t, {TIMES})"
"""A text of at least 60,000 bytes."""
LOOPED: Final = pa.schema([("k", pa.int64()), ("t", pa.string())])
COPIES: Final = "select distinct k, t from (select k, t from l union all select x.k, x.t from x where x.k < 0)"
JOINS: Final = "select distinct k, t from (select k, t from l union all select x.k, x.t || x.t as t from x)"
ANY: Final = sub.f.any_value(sub.col("t")).alias("t")
LONG_DECIMAL: Final = sub.f.max(sub.col("k").cast(sub.decimal(0, 38))).alias("m")
DOUBLED: Final = "||".join(["t"] * 64)
KINDS: Final[Mapping[str, Kind]] = {
    "read": sql(READ),
    "filter": sql(f"{READ} WHERE k >= 3"),
    "project": sql("SELECT k, t || 'x' AS t FROM l"),
    "limit": sql(f"{READ} LIMIT 1000"),
    "sort": sql(f"{READ} ORDER BY k DESC"),
    "sort by the text": sql(f"{READ} ORDER BY t"),
    "top rows": sql(f"{READ} ORDER BY k DESC LIMIT 10"),
    "window": sql("SELECT k, t, row_number() OVER (PARTITION BY g ORDER BY k DESC) AS n FROM l"),
    "window over the text": sql("SELECT k, lag(t) OVER (PARTITION BY g ORDER BY k) AS p FROM l"),
    "count by key": sql("SELECT g, count(t) AS n FROM l GROUP BY g"),
    "count by each key": sql("SELECT k, count(t) AS n FROM l GROUP BY k"),
    "greatest by key": sql("SELECT g, max(t) AS t FROM l GROUP BY g"),
    "greatest by each key": sql("SELECT k, max(t) AS t FROM l GROUP BY k"),
    "groups of texts": sql("SELECT t, count(k) AS n FROM l GROUP BY t"),
    "distinct": sql("SELECT DISTINCT g, t FROM l"),
    "union all": sql(f"{READ} UNION ALL SELECT k, g, t FROM r", FED),
    "union": sql("SELECT k, t FROM l UNION SELECT k, t FROM r", FED),
    "except": sql("SELECT k, t FROM l EXCEPT SELECT k, t FROM r", FED, refused=MANY),
    "intersect": sql("SELECT k, t FROM l INTERSECT SELECT k, t FROM r", FED),
    "join": sql("SELECT l.k, l.t, r.g FROM l JOIN r ON l.k = r.k", FED),
    "join with texts on both sides": sql("SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.k = r.k", FED, refused=MANY),
    "left join": sql("SELECT l.k, l.t, r.t AS u FROM l LEFT JOIN r ON l.k = r.k", FED),
    "full join": sql("SELECT l.k, l.t, r.t AS u FROM l FULL JOIN r ON l.k = r.k", FED),
    "join on the text": sql("SELECT l.k, r.k AS m FROM l JOIN r ON l.t = r.t", FED, refused=MANY),
    "semi join": sql(f"{READ} WHERE k IN (SELECT k FROM r WHERE g < 5)", FED),
    "cross join": sql("SELECT l.k, l.t, r.s FROM l CROSS JOIN (SELECT max(k) AS s FROM r) AS r", FED),
    "cross join with two rows": by_hand(
        lambda: plans.crossed(_read("l"), plans.limited(_read("r"), 2)), 2 * len(SCHEMA), FED
    ),
    "read twice": sql(
        "WITH c AS (SELECT k, max(t) AS t FROM l GROUP BY k) SELECT a.k, a.t, b.t AS u FROM c AS a JOIN c AS b "
        "ON a.k = b.k + 1"
    ),
    "sort on two channels": sql(f"{READ} ORDER BY k DESC", **on_channels(2)),
    "join on two channels": sql("SELECT l.k, l.t, r.g FROM l JOIN r ON l.k = r.k", FED, **on_channels(2)),
    "groups on two channels": sql("SELECT k, max(t) AS t FROM l GROUP BY k", **on_channels(2)),
    "filter on two channels": sql(f"{READ} WHERE k >= 3", **on_channels(2)),
    "merge join": by_hand(
        lambda: plans.merged(*(plans.declared(_read(source), 0) for source in SOURCES), len(SCHEMA)),
        2 * len(SCHEMA),
        FED,
    ),
    "streaming aggregate": by_hand(lambda: plans.summed(plans.declared(_read("l"), 0)), 2),
    "top n with ties": by_hand(lambda: plans.top(_read("l"), 10, "WITH_TIES", "DESC"), len(SCHEMA)),
    "grouping sets": sql("SELECT g, k % 10 AS m, max(t) AS t FROM l GROUP BY GROUPING SETS ((g), (k % 10), ())"),
    "correlated": sql("SELECT k, t, (SELECT max(r.t) FROM r WHERE r.k = l.k) AS s FROM l", FED),
    "lateral join": by_hand(lambda: plans.lateral(*map(_read, SOURCES)), 2 * len(SCHEMA), FED, MANY),
    "lateral mark": by_hand(lambda: plans.lateral(*map(_read, SOURCES), type_="LEFT_MARK"), len(SCHEMA) + 1, FED),
    "lateral mark that may be null": by_hand(
        lambda: plans.lateral(*map(_read, SOURCES), type_="LEFT_MARK", condition=plans.equal(1, len(SCHEMA) + 1)),
        len(SCHEMA) + 1,
        FED,
        MANY,
    ),
    "expand": by_hand(lambda: _expanded(_read("l")), 4),
    "unnest": unnested(LONG_ROW),
    "pack lists": over(
        "SELECT array_repeat(k, character_length(t)) AS tokens FROM l WHERE k < 20000",
        PackLists(column=0, length=4_096, window_rows=1_000),
        ["tokens", "segments", "positions"],
        LONG_ROW,
    ),
    "write": by_hand(lambda: _written(_read("l")), len(SCHEMA)),
    "user operator": over(READ, UserOperator(name="passed on"), SCHEMA.names),
    "look-ups in a table": looked_up("", refused("INDEX_TOO_LARGE")),
    "look-ups in files": looked_up("file", refused("UNSUPPORTED_INDEX", "100 KB", "10 MB")),
    "join with a table": Kind(
        plan=lambda: planned("SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.k = r.k"), fed=FED, bound="r", refused=MANY
    ),
    "windows of time": built(lambda left, _: windows.tumbling(left, "k", 10, keys=["g"], measures=[ANY])),
    "sliding windows of time": built(lambda left, _: windows.sliding(left, "k", 100, 50, keys=["g"], measures=[ANY])),
    "sessions": built(lambda left, _: windows.session(left, "k", 5, keys=["g"], measures=[ANY])),
    "windows of rows": built(lambda left, _: windows.count(left, "k", 10, keys=["g"], measures=[ANY])),
    "counts of sliding windows": built(
        lambda left, _: windows.sliding(left, "k", 100, 50, keys=["t"], measures=[sub.f.count().alias("n")])
    ),
    "counts of sliding windows by fractions": built(
        lambda left, _: windows.sliding(
            left.select("k", sub.col("g").cast(sub.fp64).alias("f")),
            "k",
            100,
            50,
            keys=["f"],
            measures=[sub.f.count().alias("n")],
        )
    ),
    "sliding windows of whole numbers": built(
        lambda left, _: windows.sliding(left, "k", 100, 50, keys=["g"], measures=[sub.f.count().alias("n")])
    ),
    "greatest decimals of sliding windows": built(
        lambda left, _: windows.sliding(left, "k", 100, 50, keys=["t"], measures=[LONG_DECIMAL])
    ),
    "interval join": built(lambda left, right: windows.interval_join(left, right, "k", after=1), FED, MANY),
    "as-of join": built(lambda left, right: windows.as_of_join(left, right, "k", keys=["g"]), FED),
    "rows on time": built(lambda left, _: windows.on_time(left, "k")),
    "continuous grouping sets": continuous(
        "SELECT g, k % 10 AS m, max(t) AS t FROM l GROUP BY GROUPING SETS ((g), (k % 10), ())"
    ),
    "continuous correlated": continuous("SELECT k, t, (SELECT max(r.t) FROM r WHERE r.k = l.k) AS s FROM l", fed=FED),
    "continuous unnest": unnested(CONTINUOUS, mode="continuous"),
    "continuous windows of time": in_state(lambda left, _: windows.tumbling(left, "k", 10, keys=["g"], measures=[ANY])),
    "continuous final windows": in_state(
        lambda left, _: windows.tumbling(windows.watermark(left, "k"), "k", 10, measures=[ANY], final=True)
    ),
    "continuous sessions": in_state(lambda left, _: windows.session(left, "k", 5, keys=["g"], measures=[ANY])),
    "continuous interval join": in_state(lambda left, right: windows.interval_join(left, right, "k", after=1), FED),
    "continuous as-of join": in_state(lambda left, right: windows.as_of_join(left, right, "k", keys=["g"]), FED),
    "continuous rows on time": in_state(lambda left, _: windows.on_time(windows.watermark(left, "k"), "k")),
    "relaxed filter": sql(f"{READ} WHERE k >= 3", determinism="relaxed"),
    "relaxed sort": sql(f"{READ} ORDER BY k DESC", determinism="relaxed"),
    "continuous filter": sql(f"{READ} WHERE k >= 3", mode="continuous", refused=STATE),
    "continuous groups": sql("SELECT g, max(t) AS t FROM l GROUP BY g", mode="continuous", refused=STATE),
    "continuous project": sql(
        "SELECT k, t || t AS t FROM l", mode="continuous", refused={**STATE, **refused(STATEMENT["10 MB"], "10 MB")}
    ),
    "continuous first texts": sql("SELECT g, first_value(t) AS t FROM l GROUP BY g", mode="continuous", refused=STATE),
    "continuous count": sql(
        "SELECT g, count(k) AS n FROM l GROUP BY g", mode="continuous", refused=refused("STATE_TOO_LARGE", "8 B")
    ),
    "continuous window": sql(
        "SELECT k, g, t, max(t) OVER (PARTITION BY g) AS m FROM l", mode="continuous", refused=STATEMENT
    ),
    "continuous window over the text": sql(
        "SELECT k, g, t, lag(t) OVER (PARTITION BY g ORDER BY k) AS p FROM l", mode="continuous", refused=STATEMENT
    ),
    "continuous greatest by each key": continuous("SELECT k, max(t) AS t FROM l GROUP BY k"),
    "continuous groups of texts": continuous("SELECT t, count(k) AS n FROM l GROUP BY t"),
    "continuous distinct": continuous("SELECT DISTINCT g, t FROM l"),
    "continuous union all": continuous(f"{READ} UNION ALL SELECT k, g, t FROM r", fed=FED),
    "continuous union": continuous("SELECT k, t FROM l UNION SELECT k, t FROM r", fed=FED),
    "continuous except": continuous("SELECT k, t FROM l EXCEPT SELECT k, t FROM r", fed=FED),
    "continuous intersect": continuous("SELECT k, t FROM l INTERSECT SELECT k, t FROM r", fed=FED),
    "continuous top rows": continuous(f"{READ} ORDER BY k DESC LIMIT 10"),
    "continuous sort": continuous(f"{READ} ORDER BY t LIMIT 100000000"),
    "continuous limit": continuous(f"{READ} ORDER BY t LIMIT 1000"),
    "continuous top rows by key": continuous(
        "SELECT k, t FROM (SELECT k, t, row_number() OVER (PARTITION BY g ORDER BY t) AS n FROM l) AS x WHERE n <= 2"
    ),
    "continuous join": continuous("SELECT l.k, l.t, r.g FROM l JOIN r ON l.k = r.k", fed=FED),
    "continuous join of few keys": continuous("SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.g = r.g", fed=FED),
    "continuous join with texts on both sides": continuous(
        "SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.k = r.k", fed=FED
    ),
    "continuous join on the text": continuous("SELECT l.k, r.k AS m FROM l JOIN r ON l.t = r.t", fed=FED),
    "continuous left join": continuous("SELECT l.k, l.t, r.t AS u FROM l LEFT JOIN r ON l.k = r.k", fed=FED),
    "continuous full join": continuous("SELECT l.k, l.t, r.t AS u FROM l FULL JOIN r ON l.k = r.k", fed=FED),
    "continuous semi join": continuous(f"{READ} WHERE k IN (SELECT k FROM r WHERE g < 5)", fed=FED),
    "continuous anti join": continuous(f"{READ} WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = l.k)", fed=FED),
    "continuous cross join": continuous(
        "SELECT l.k, l.t, r.s FROM l CROSS JOIN (SELECT max(k) AS s FROM r) AS r", fed=FED
    ),
    "continuous loop that copies texts": loop(COPIES, LOOPED, STATE, mode="continuous"),
    "continuous loop that joins texts": loop(JOINS, LOOPED, STATE, mode="continuous"),
    "loop that copies texts": loop(COPIES, LOOPED),
    "loop that joins texts": loop(JOINS, LOOPED),
    "lengths in order": sql("SELECT k, character_length(t) AS n FROM l WHERE k >= 3 ORDER BY n"),
    "texts that grow": sql(f"SELECT k, {LONG} AS t FROM l WHERE k < 2500", layout="arrow", refused=LONG_ROW),
    "texts that grow in files": sql(f"SELECT k, {LONG} AS t FROM l WHERE k < 2500", refused=GROWN),
    "texts that grow in a sort": sql(f"SELECT k, {LONG} AS t FROM l WHERE k < 2500 ORDER BY t", refused=GROWN),
    "texts that grow in groups": sql(
        f"SELECT t, count(*) AS n FROM (SELECT {LONG} AS t FROM l WHERE k < 2500) AS x GROUP BY t", refused=GROWN
    ),
    "texts that grow in a join": sql(
        "SELECT l.k, repeat(l.t, 30000 / character_length(r.t) + 1) AS t FROM l JOIN r ON l.k = r.k WHERE l.k < 2500",
        FED,
        refused=GROWN,
    ),
    "few texts that grow": sql(
        "SELECT repeat(l.t, 300000 / character_length(l.t) + 1) AS t, r.s FROM l "
        "CROSS JOIN (SELECT max(k) AS s FROM r) AS r WHERE l.k % 100 = 0 AND l.k < 250000",
        FED,
        "arrow",
        refused=LONG_ROW,
    ),
    "texts that double": sql(
        f"SELECT k, {DOUBLED} AS t FROM l WHERE k < 2500",
        refused={**LOOP, **refused("ROW_TOO_LARGE", "100 KB", "10 MB")},
    ),
    "lists that grow": sql(f"SELECT k, array_repeat(k, {TIMES}) AS t FROM l WHERE k < 2500", refused=GROWN),
    "texts in one": sql("SELECT g, string_agg(t, ',') AS t FROM l GROUP BY g", refused=LOOP),
    "continuous texts that grow": sql(
        f"SELECT k, {LONG} AS t FROM l WHERE k < 2500",
        mode="continuous",
        refused={**STATE, **refused("MEMORY_LIMIT", "8 B", "1 KB")},
    ),
    "node that passes texts on": node(f"{READ} WHERE k >= 3"),
    "node that makes texts": node(f"SELECT k, {'||'.join('t' * 8)} AS t FROM l", refused=LONG_ROW),
    "node that takes texts apart": node(
        "SELECT k, list_transform(string_split(t, 'a'), lambda x: upper(x)) AS t FROM l", refused=LONG_ROW
    ),
    "arrow": sql(f"{READ} WHERE k >= 3", layout="arrow"),
    "arrow in one batch": sql(f"{READ} WHERE k >= 3", layout="arrow in one batch"),
    "arrow stream in one batch": sql(f"{READ} WHERE k >= 3", layout="arrow stream in one batch"),
    "parquet as pyarrow writes it": sql(f"{READ} WHERE k >= 3", layout="parquet as pyarrow writes it"),
    "csv": sql(f"{READ} WHERE k >= 3", layout="csv", refused=LONG_LINE),
    "json": sql(f"{READ} WHERE k >= 3", layout="json", refused=LONG_LINE),
    "orc": sql(f"{READ} WHERE k >= 3", layout="orc"),
}


def planned(text: str) -> bytes:
    return planned_over(SCHEMA, text)


def planned_over(schema: pa.Schema, text: str) -> bytes:
    """DataFusion's plan of a query over sources of this schema."""
    session = datafusion.SessionContext()
    for name in SOURCES:
        session.register_record_batches(name, [[pa.RecordBatch.from_pylist([], schema)]])
    return bytes(Serde.serialize_bytes(text, session))


def _read(source: str) -> dict[str, Any]:
    relation = plans.read(source, *SCHEMA.names)
    text = {"string": {"nullability": "NULLABILITY_NULLABLE"}}
    relation["read"]["baseSchema"]["struct"]["types"][-1] = text
    return relation


def _expanded(relation: object) -> dict[str, object]:
    fields: list[object] = [{"consistentField": plans.column(at)} for at in (2, 0)]
    fields.append({"switchingField": {"duplicates": [plans.column(0), plans.column(1)]}})
    return {"expand": {"input": relation, "fields": fields}}


def _written(relation: dict[str, Any]) -> dict[str, object]:
    table = {"namedTable": {"names": ["out"]}, "tableSchema": relation["read"]["baseSchema"], "op": "WRITE_OP_CTAS"}
    return {"write": {**table, "output": "OUTPUT_MODE_MODIFIED_RECORDS", "input": relation}}


def _looped(loops: Mapping[str, Looped]) -> bytes:
    return LoopQuery(loops, "select k, t from x").plan(schemas=dict.fromkeys(SOURCES, SCHEMA))
