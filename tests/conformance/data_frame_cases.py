"""A case for each public name of substrait.dataframe: a frame that uses it, and its SQL or the reason of a refusal.

Keys are names of `substrait.dataframe`, and `Class.name` for methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import substrait.dataframe as sub
from google.protobuf.any_pb2 import Any as Packed

INTEGER: Final = sub.i64
LEFT: Final = pa.table(
    {
        "k": pa.array([1, 1, 2, 2, 3, None], pa.int64()),
        "v": pa.array([4, -1, 4, None, 0, 7], pa.int64()),
        "s": pa.array(["a", "b", "a", None, "", "c"], pa.string()),
        "x": pa.array([0.5, float("nan"), 2.0, None, -1.0, 3.5], pa.float64()),
        "xs": pa.array([[1, 2], [], [3, None], None, [5, 6, 7], [0]], pa.list_(pa.int64())),
        "mp": pa.array([[("p", at)] for at in range(6)], pa.map_(pa.string(), pa.int64())),
    }
)
RIGHT: Final = pa.table({"j": pa.array([1, 2, 2, 4, None], pa.int64()), "w": pa.array([3, 5, 5, 1, 4], pa.int64())})
NESTED: Final = pa.table(
    {"st": pa.array([{"a": 1, "b": "z"}, {"a": None, "b": ""}], pa.struct([("a", pa.int64()), ("b", pa.string())]))}
)
TABLES: Final = {"l": LEFT, "r": RIGHT, "n": NESTED}
STRUCT: Final = sub.struct([sub.i64(), sub.string()])
LEFT_TYPES: Final = {
    "k": INTEGER,
    "v": INTEGER,
    "s": sub.string,
    "x": sub.fp64,
    "xs": sub.list_(sub.i64()),
    "mp": sub.map_(sub.string(nullable=False), sub.i64()),
}
RIGHT_TYPES: Final = {"j": INTEGER, "w": INTEGER}
_MARK: Final = Packed(type_url="example.com/unknown")


@dataclass(frozen=True)
class Case:
    """`sql` is DuckDB's; `ordered` frames are compared in order. Without SQL the plan is refused for `refused`."""

    frame: Callable[[], sub.DataFrame]
    sql: str = ""
    refused: str = ""
    ordered: bool = False
    parameters: Mapping[int, Any] = field(default_factory=dict)


class _Unknown:
    """A relation of another system, with an integer column."""

    type_url = _MARK.type_url

    def to_any(self) -> Packed:
        return _MARK

    @classmethod
    def from_any(cls, detail: Packed) -> Any:
        del detail
        return cls()

    def derive_schema(self, inputs: Any = None) -> Any:
        del inputs
        return sub.named_struct(["a"], sub.struct([sub.i64()], nullable=False))


class UnknownLeaf(_Unknown, sub.ExtensionLeafDetail):
    """The relation without inputs."""


class UnknownMulti(_Unknown, sub.ExtensionMultiDetail):
    """The relation of several inputs."""


def left() -> sub.DataFrame:
    return sub.read_named_table("l", LEFT_TYPES)


def flat() -> sub.DataFrame:
    """The left table's columns that every function takes."""
    return left().select("k", "v", "s")


def right() -> sub.DataFrame:
    return sub.read_named_table("r", RIGHT_TYPES)


def nested() -> sub.DataFrame:
    return sub.read_named_table("n", sub.named_struct(["st", "a", "b"], sub.struct([STRUCT], nullable=False)))


def twice(frame: sub.DataFrame) -> sub.DataFrame:
    return frame.union(frame)


def shown(expression: Any) -> sub.DataFrame:
    """A frame of the key and one expression."""
    return left().select("k", "v", expression.alias("e"))


def column(sql: str) -> str:
    return f"SELECT k, v, {sql} AS e FROM l"


def _grouped(groups: Any) -> sub.DataFrame:
    return groups.agg(sub.f.sum(sub.col("v")).alias("t")).select("k", "s", "t")


def _one(frame: sub.DataFrame, function: Any, name: str) -> sub.DataFrame:
    return frame.aggregate((), function(sub.col(name)).alias("m"))


_SETS: Final = "SELECT k, s, CAST(sum(v) AS BIGINT) FROM l GROUP BY "
_K, _V, _S, _X = (sub.col(name) for name in "kvsx")
_J, _W = sub.col("j"), sub.col("w")
_JOINED: Final = "SELECT k, v, s, j, w FROM l {} JOIN r ON {}"

FRAMES: Final[Mapping[str, Case]] = {
    "read_named_table": Case(lambda: sub.read_named_table("r", RIGHT_TYPES), "SELECT * FROM r"),
    "from_records": Case(
        lambda: sub.from_records([(1, "a"), {"n": 2}, (None, "")], {"n": INTEGER, "t": sub.string}),
        "VALUES (1, 'a'), (2, NULL), (NULL, '')",
    ),
    "read_extension_table": Case(lambda: sub.read_extension_table({"a": INTEGER}, _MARK), refused="UNSUPPORTED_READ"),
    "extension_leaf": Case(lambda: sub.extension_leaf(UnknownLeaf()), refused="UNSUPPORTED_RELATION"),
    "user_defined": Case(lambda: sub.read_named_table("r", {"a": sub.user_defined(7)}), refused="UNKNOWN_ANCHOR"),
    "create_table": Case(lambda: sub.create_table("n", {"a": INTEGER}), refused="UNSUPPORTED_RELATION"),
    "create_view": Case(lambda: sub.create_view("n", flat()), refused="UNSUPPORTED_RELATION"),
    "drop_table": Case(lambda: sub.drop_table("n"), refused="UNSUPPORTED_RELATION"),
    "drop_view": Case(lambda: sub.drop_view("n"), refused="UNSUPPORTED_RELATION"),
    "update_table": Case(lambda: sub.update_table("r", RIGHT_TYPES, {"w": sub.lit(1)}), refused="UNSUPPORTED_RELATION"),
    "DataFrame.extension": Case(lambda: flat().extension(_MARK), refused="UNSUPPORTED_RELATION"),
    "DataFrame.extension_multi": Case(
        lambda: flat().extension_multi([right()], UnknownMulti()), refused="UNSUPPORTED_RELATION"
    ),
    "DataFrame.filter": Case(lambda: flat().filter(_V > 0), "SELECT k, v, s FROM l WHERE v > 0"),
    "DataFrame.select": Case(lambda: left().select("s", _V + 1), "SELECT s, v + 1 FROM l"),
    "DataFrame.with_columns": Case(lambda: right().with_columns(t=_W * 2), "SELECT *, w * 2 FROM r"),
    "DataFrame.rename": Case(lambda: right().rename({"w": "q"}), "SELECT j, w AS q FROM r"),
    "DataFrame.drop": Case(lambda: right().drop("j"), "SELECT w FROM r"),
    "DataFrame.unpivot": Case(
        lambda: flat().unpivot(["k", "v"], "s"),
        "SELECT s, 'k', k FROM l UNION ALL SELECT s, 'v', v FROM l",
    ),
    "DataFrame.sort": Case(
        lambda: flat().sort("s", "v", descending=[True, False], nulls_last=[False, True]),
        "SELECT k, v, s FROM l ORDER BY s DESC NULLS FIRST, v ASC NULLS LAST",
        ordered=True,
    ),
    "DataFrame.limit": Case(lambda: flat().sort("v").limit(2, 1), "SELECT k, v, s FROM l ORDER BY v LIMIT 2 OFFSET 1"),
    "DataFrame.head": Case(lambda: right().sort("w").head(3), "SELECT * FROM r ORDER BY w LIMIT 3"),
    "DataFrame.offset": Case(lambda: right().sort("w").offset(3), "SELECT * FROM r ORDER BY w OFFSET 3"),
    "DataFrame.top_n": Case(
        lambda: flat().top_n(1, "v", descending=True, offset=1, with_ties=False).select("v"),
        "SELECT v FROM l ORDER BY v DESC NULLS LAST LIMIT 1 OFFSET 1",
    ),
    "DataFrame.join": Case(
        lambda: flat().join(right(), _K == _J, how="left", post_filter=_V > 0),
        "SELECT k, v, s, j, w FROM l LEFT JOIN r ON k = j WHERE v > 0",
    ),
    "DataFrame.cross_join": Case(lambda: flat().cross_join(right()), "SELECT k, v, s, j, w FROM l CROSS JOIN r"),
    "DataFrame.lateral_join": Case(
        lambda: flat().lateral_join(lambda of: _one(right().filter(of.col("k") == _J), sub.f.max, "w"), how="left"),
        "SELECT k, v, s, (SELECT max(w) FROM r WHERE j = k) FROM l",
    ),
    "DataFrame.nested_loop_join": Case(
        lambda: flat().nested_loop_join(right(), _V < _W, how="outer"), _JOINED.format("FULL", "v < w")
    ),
    "DataFrame.hash_join": Case(
        lambda: flat().hash_join(right(), "k", "j", how="outer", residual=_V < _W),
        _JOINED.format("FULL", "k = j AND v < w"),
    ),
    "DataFrame.merge_join": Case(
        lambda: flat().sort("k").merge_join(right().sort("j"), "k", "j", how="right"), _JOINED.format("RIGHT", "k = j")
    ),
    "DataFrame.repartition": Case(lambda: right().repartition(2), "SELECT * FROM r"),
    "DataFrame.broadcast": Case(lambda: right().broadcast(), "SELECT * FROM r"),
    "DataFrame.hint": Case(lambda: right().hint(row_count=5.0, alias="q"), "SELECT * FROM r"),
    "DataFrame.cache": Case(
        lambda: twice(right().filter(_W > 3).cache()),
        "SELECT * FROM r WHERE w > 3 UNION ALL SELECT * FROM r WHERE w > 3",
    ),
    "DataFrame.with_execution_behavior": Case(lambda: right().with_execution_behavior("per_plan"), "SELECT * FROM r"),
    "DataFrame.union": Case(lambda: right().union(right(), distinct=True), "SELECT * FROM r UNION SELECT * FROM r"),
    "DataFrame.intersect": Case(
        lambda: left().select("k").intersect(right().select("j"), distinct=False),
        "SELECT k FROM l INTERSECT ALL SELECT j FROM r",
    ),
    "DataFrame.except_": Case(
        lambda: left().select("k").except_(right().select("j"), distinct=False),
        "SELECT k FROM l EXCEPT ALL SELECT j FROM r",
    ),
    "DataFrame.group_by": Case(
        lambda: _grouped(left().group_by("k", "s", grouping_sets=[["k"], ["s"]])), f"{_SETS} GROUPING SETS ((k), (s))"
    ),
    "DataFrame.rollup": Case(lambda: _grouped(left().rollup("k", "s")), f"{_SETS} ROLLUP (k, s)"),
    "DataFrame.cube": Case(lambda: _grouped(left().cube("k", "s")), f"{_SETS} CUBE (k, s)"),
    "DataFrame.aggregate": Case(
        lambda: left().aggregate("k", sub.f.count(_V).alias("n")), "SELECT k, count(v) FROM l GROUP BY k"
    ),
    "GroupBy.agg": Case(
        lambda: left().group_by("k").agg(sub.f.min(_V).alias("n")), "SELECT k, min(v) FROM l GROUP BY k"
    ),
    "DataFrame.f": Case(lambda: left().select(left().f.add(_V, 1)), "SELECT v + 1 FROM l"),
}
"""The methods and functions that make a frame. Those that read files and write tables are tested by themselves."""

EXPRESSIONS: Final[Mapping[str, Case]] = {
    "col": Case(lambda: shown(sub.col(1)), column("v")),
    "enum": Case(lambda: shown(sub.f.extract(sub.enum("YEAR"), sub.lit(date(2024, 2, 3)))), column("2024::BIGINT")),
    "lit": Case(lambda: shown(sub.lit(None, INTEGER)), column("NULL")),
    "outer": Case(
        lambda: flat().filter(sub.exists(right().filter(sub.outer("k") == _J))),
        "SELECT k, v, s FROM l WHERE EXISTS (SELECT 1 FROM r WHERE j = k)",
    ),
    "when": Case(
        lambda: shown(sub.when(_V > 3).then(1).when(_V > 0).then(2).otherwise(3)),
        column("CASE WHEN v > 3 THEN 1 WHEN v > 0 THEN 2 ELSE 3 END"),
    ),
    "coalesce": Case(lambda: shown(sub.coalesce(_V, _K, 9)), column("coalesce(v, k, 9)")),
    "scalar_subquery": Case(
        lambda: shown(sub.scalar_subquery(_one(right(), sub.f.max, "w"))), column("(SELECT max(w) FROM r)")
    ),
    "exists": Case(
        lambda: flat().filter(~sub.exists(right().filter(sub.outer("k") == _J))),
        "SELECT k, v, s FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE j = k)",
    ),
    "unique": Case(
        lambda: flat().filter(sub.unique(right().filter(sub.outer("k") == _J))),
        "SELECT k, v, s FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE j = k GROUP BY j, w HAVING count(*) > 1)",
    ),
    "any_": Case(lambda: shown(sub.any_(right().select("w")) < _V), column("v > ANY (SELECT w FROM r)")),
    "all_": Case(lambda: shown(sub.all_(right().select("w")) <= _V), column("v >= ALL (SELECT w FROM r)")),
    "f": Case(lambda: shown(sub.f.upper(_S)), column("upper(s)")),
    "functions_for": Case(lambda: shown(sub.functions_for(sub.default_registry()).upper(_S)), column("upper(s)")),
    "parameter": Case(lambda: shown(_V + sub.parameter(0, INTEGER)), column("v + 5"), parameters={0: 5}),
    "Expr.alias": Case(lambda: shown(_V.alias("q")), column("v")),
    "Expr.between": Case(lambda: shown(_V.between(0, 4)), column("v BETWEEN 0 AND 4")),
    "Expr.cast": Case(lambda: shown(_V.cast(sub.string)), column("CAST(v AS VARCHAR)")),
    "Expr.distinct": Case(
        lambda: left().aggregate((), sub.f.count(_V).distinct().alias("n")), "SELECT count(DISTINCT v) FROM l"
    ),
    "Expr.filter": Case(
        lambda: left().aggregate((), sub.f.count(_V).filter(_V > 0)), "SELECT count(v) FILTER (WHERE v > 0) FROM l"
    ),
    "Expr.in_subquery": Case(lambda: shown(_V.in_subquery(right().select("w"))), column("v IN (SELECT w FROM r)")),
    "Expr.is_distinct_from": Case(lambda: shown(_V.is_distinct_from(_K)), column("v IS DISTINCT FROM k")),
    "Expr.is_in": Case(lambda: shown(_V.is_in([4, 0])), column("v IN (4, 0)")),
    "Expr.is_nan": Case(lambda: shown(_X.is_nan()), column("isnan(x)")),
    "Expr.is_not_distinct_from": Case(lambda: shown(_V.is_not_distinct_from(_K)), column("v IS NOT DISTINCT FROM k")),
    "Expr.is_not_null": Case(lambda: shown(_V.is_not_null()), column("v IS NOT NULL")),
    "Expr.is_null": Case(lambda: shown(_V.is_null()), column("v IS NULL")),
    "Expr.list_element": Case(lambda: shown(sub.col("xs").list_element(1)), column("xs[2]")),
    "Expr.list_filter": Case(
        lambda: shown(sub.col("xs").list_filter(lambda item: item > 2)), column("list_filter(xs, lambda a: a > 2)")
    ),
    "Expr.list_transform": Case(
        lambda: shown(sub.col("xs").list_transform(lambda item: item + 1)),
        column("list_transform(xs, lambda a: a + 1)"),
    ),
    "Expr.map_key": Case(lambda: shown(sub.col("mp").map_key("p")), column("mp['p']")),
    "Expr.order_by": Case(
        lambda: left().aggregate((), sub.f.string_agg(_S, ",").order_by("v", descending=True).alias("t")),
        "SELECT string_agg(s, ',' ORDER BY v DESC NULLS LAST, s) FROM l",
    ),
    "Expr.over": Case(
        lambda: shown(sub.f.first_value(_V).over("s", "v", rows=(-1, 0))),
        column("first_value(v) OVER (PARTITION BY s ORDER BY v NULLS LAST ROWS 1 PRECEDING)"),
    ),
    "Expr.struct_field": Case(lambda: nested().select(sub.col("st").struct_field(0) + 1), "SELECT st.a + 1 FROM n"),
    "Expr.switch": Case(
        lambda: shown(_S.switch({"a": 1, "b": 2}, 3)), column("CASE s WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 3 END")
    ),
    "Expr.unbound": Case(lambda: left().select(sub.Expr(_V.unbound)), "SELECT v FROM l"),
    "When.when": Case(lambda: shown(sub.when(_V > 3).then("a").otherwise("b")), column("if(v > 3, 'a', 'b')")),
}
"""The functions and methods that make an expression."""

TYPES: Final[Mapping[str, tuple[Any, pa.DataType, Any]]] = {
    "boolean": (sub.boolean, pa.bool_(), True),
    "i8": (sub.i8, pa.int8(), -128),
    "i16": (sub.i16, pa.int16(), -(2**15)),
    "i32": (sub.i32, pa.int32(), 2**31 - 1),
    "i64": (sub.i64, pa.int64(), -(2**63)),
    "fp32": (sub.fp32, pa.float32(), 0.5),
    "fp64": (sub.fp64, pa.float64(), 1e300),
    "string": (sub.string, pa.string(), "ä"),
    "binary": (sub.binary, pa.binary(), b"\xff"),
    "date": (sub.date, pa.date32(), date(1969, 12, 31)),
    "fixed_char": (sub.fixed_char(2), pa.string(), "ab"),
    "varchar": (sub.varchar(3), pa.string(), "ab"),
    "fixed_binary": (sub.fixed_binary(2), pa.binary(2), b"ab"),
    "uuid": (sub.uuid, pa.uuid(), bytes(range(16))),
    "decimal": (sub.decimal(2, 9), pa.decimal128(9, 2), Decimal("-1.25")),
    "precision_time": (sub.precision_time(6), pa.time64("us"), 1),
    "precision_timestamp": (sub.precision_timestamp(6), pa.timestamp("us"), 1),
    "precision_timestamp_tz": (sub.precision_timestamp_tz(6), pa.timestamp("us", "UTC"), 1),
    "interval_year": (sub.interval_year, pa.month_day_nano_interval(), (14, 0, 0)),
    "interval_day": (sub.interval_day(6), pa.month_day_nano_interval(), (0, 3, 5_000)),
    "interval_compound": (sub.interval_compound(6), pa.month_day_nano_interval(), (14, 3, 5_000)),
    "struct": (STRUCT, pa.struct([("a", pa.int64()), ("b", pa.string())]), {"a": 1}),
    "list_": (sub.list_(sub.i64()), pa.list_(pa.int64()), [1, None]),
    "map_": (
        sub.map_(sub.string(nullable=False), sub.i64()),
        pa.map_(pa.string(), pa.int64()),
        [("a", 1)],
    ),
}
"""A type as substrait-python and as Arrow write it, and a value."""
