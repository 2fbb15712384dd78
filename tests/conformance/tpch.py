"""TPC-H for tests: the data, four producers' plans of the queries, their SQL, and what the right answers are."""

from __future__ import annotations

import importlib.metadata
import math
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final

import datafusion
import duckdb
import pyarrow as pa
from substrait.proto import Plan

PLANS: Final = Path(__file__).parent / "plans"
PRODUCERS: Final = ("datafusion", "duckdb", "ibis", "substrait_python")
TABLES: Final = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
SCALE: Final = "0.01"


def plans(producer: str) -> list[str]:
    """The queries that a producer has a plan of: q01 and so on."""
    return sorted(path.stem for path in (PLANS / producer).glob("q*.bin"))


def plan_bytes(producer: str, query: str) -> bytes:
    return (PLANS / producer / f"{query}.bin").read_bytes()


def root_names(producer: str, query: str) -> list[str]:
    """The names that a plan gives its result's columns, read by the stock bindings."""
    parsed = Plan.FromString(plan_bytes(producer, query))
    (root,) = (relation.root for relation in parsed.relations if relation.HasField("root"))
    return list(root.names)


def sql_of(producer: str, query: str) -> str:
    """The SQL a plan stands for. The ibis plans have parameters of their own."""
    folder = "sql_ibis" if producer == "ibis" else "sql"
    return (PLANS / folder / f"{query}.sql").read_text()


def generate(folder: Path, scale: str = SCALE) -> dict[str, Path]:
    """The eight tables as Parquet files in an empty folder."""
    command = [_generator(), "parquet", "-s", scale, "--output-dir", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return {table: folder / f"{table}.parquet" for table in TABLES}


def _generator() -> str:
    """The console script, wherever the package was installed to."""
    for file in importlib.metadata.files("tpchgen-cli") or ():
        if file.stem == "tpchgen-cli" and file.parent.name in ("bin", "Scripts"):
            return str(Path(str(file.locate())).resolve())
    generator = shutil.which("tpchgen-cli")
    assert generator, "tpchgen-cli is not installed: it comes with the extra `test`"
    return generator


class Oracles:
    """Two engines' answers to SQL over the same files."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._duckdb = duckdb.connect()
        self._datafusion = datafusion.SessionContext()
        for name, path in files.items():
            self._duckdb.read_parquet(str(path)).create_view(name)
            self._datafusion.register_parquet(name, str(path))
        self.answers = cache(self._answers)

    def _answers(self, sql: str) -> dict[str, pa.Table]:
        return {
            "DuckDB": self._duckdb.sql(sql).to_arrow_table(),
            "DataFusion": self._datafusion.sql(sql).to_arrow_table(),
        }


def quotients(answers: Mapping[str, pa.Table]) -> frozenset[int]:
    """The columns of averages and ratios of decimals: DuckDB gives doubles, DataFusion decimals cut off at a scale of
    its own, so no decimal can equal both.
    """
    columns = zip(answers["DuckDB"].schema.types, answers["DataFusion"].schema.types, strict=True)
    return frozenset(
        at for at, (one, other) in enumerate(columns) if pa.types.is_floating(one) and pa.types.is_decimal(other)
    )


def differences(
    answer: pa.Table, expected: pa.Table, sql: str, ratios: frozenset[int], rounded: float = 0
) -> list[str]:
    """What is wrong with an answer: its rows as a multiset, and their order by the keys that the SQL orders by.
    `rounded` is the relative difference that ratios may have where an engine computes with rounded ratios.
    """
    if answer.num_columns != expected.num_columns:
        return [f"{answer.num_columns} columns instead of {expected.num_columns}"]
    mine, theirs = _rows(answer), _rows(expected)
    if len(mine) != len(theirs):
        return [f"{len(mine)} rows instead of {len(theirs)}"]
    columns = range(answer.num_columns)
    pairs = zip(sorted(mine, key=_rank), sorted(theirs, key=_rank), strict=True)
    differences = [
        f"{one} instead of {other}" for one, other in pairs if not _same_row(one, other, columns, ratios, rounded)
    ]
    keys = _order(sql, expected.schema.names)
    for one, other in zip(mine, theirs, strict=True):
        if not _same_row(one, other, keys, ratios, rounded):
            differences.append(f"{one} stands where {other} should: order by columns {keys}")
    return differences[:5]


def _rows(table: pa.Table) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _rank(row: Sequence[object]) -> list[str]:
    """Texts first: numbers that two engines round differently must not decide which rows are compared."""
    texts = [str(value) for value in row if not isinstance(value, float | Decimal)]
    return [*texts, *(f"{value:.4e}" for value in row if isinstance(value, float | Decimal))]


def _same_row(
    one: Sequence[object], other: Sequence[object], columns: Iterable[int], ratios: frozenset[int], rounded: float
) -> bool:
    return all(_close(one[at], other[at], rounded) if at in ratios else _same(one[at], other[at]) for at in columns)


def _same(one: object, other: object) -> bool:
    """Exact, floats to 1e-9. A float may stand for an exact number."""
    match one, other:
        case float(), int() | float() | Decimal():
            return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
        case int() | Decimal(), float():
            return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
        case _:
            return one == other


def _close(one: object, other: object, rounded: float) -> bool:
    """To the last place that both have: one may be rounded, the other cut off; or to the relative difference."""
    numbers = [value for value in (one, other) if isinstance(value, Decimal)]
    if not numbers or _same(one, other):
        return _same(one, other)
    if (
        isinstance(one, float | Decimal)
        and isinstance(other, float | Decimal)
        and math.isclose(one, other, rel_tol=rounded)
    ):
        return True
    last = max(Decimal(1).scaleb(int(value.as_tuple().exponent)) for value in numbers)
    return one is not None and other is not None and abs(Decimal(one) - Decimal(other)) <= last  # type: ignore[arg-type]


def _order(sql: str, names: Sequence[str]) -> list[int]:
    """The positions of the columns that the outermost ORDER BY names."""
    order_terms = re.findall(r"ORDER BY\s+((?:(?!LIMIT|\)).)*)", sql, re.IGNORECASE | re.DOTALL)
    if not order_terms:
        return []
    terms = [re.sub(r'"|\w+"?\.', "", term).split()[0] for term in order_terms[-1].rstrip(" ;\n").split(",")]
    lower = [name.lower() for name in names]
    return [lower.index(term.lower()) for term in terms]
