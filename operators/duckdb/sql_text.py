"""Checks of texts of a plan before it runs: the relations that a SELECT of user code reads, the schema of its rows, and
the names of time zones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Final

import duckdb
import pyarrow as pa

from ...proto.arrow.without_rows import empty_table
from .duckdb_calls import Connection, opened
from .statement_inputs import positional_schema

_FUNCTIONS: Final = frozenset({"unnest", "range", "generate_series"})
"""The functions that may stand in place of a relation: none of them reads from outside."""


_TOO_DEEP: Final = "the statement has too many expressions inside of each other: compute some in a node before it"


class BadStatementError(ValueError):
    """A statement is wrong. The text is DuckDB's, where DuckDB has refused the statement."""


_MAKES_NOTHING: Final = frozenset(
    """+ - * / // % ** abs round floor ceil sqrt exp ln pow greatest least
    ~~ !~~ ~~* !~~* contains starts_with prefix suffix regexp_matches length strlen octet_length len
    date_trunc date_part year month day hour minute second epoch struct_extract element_at list_contains
    count count_star sum avg mean min max first last any_value arg_min arg_max min_by max_by bool_and bool_or
    stddev variance median quantile_cont quantile_disc mode
    string_agg group_concat listagg array_agg list histogram""".split()  # noqa: SIM905 - a list would have a line for each word
)
"""Functions that make no text and no list of a row's values. Aggregates hold what they collect; DuckDB counts it."""
_FIXED_TYPES: Final = frozenset(
    """bool boolean tinyint smallint int integer bigint hugeint utinyint usmallint uinteger ubigint uhugeint
    int1 int2 int4 int8 short long signed float float4 float8 real double decimal numeric
    date time timestamp timestamptz timestamp_s timestamp_ms timestamp_ns datetime interval uuid""".split()  # noqa: SIM905 - as above
)
"""Types of values that have no length of their own, as SQL calls them."""


@dataclass(frozen=True, slots=True)
class StatementReads:
    """The reads of a statement: how often it names each relation, in lower case, and whether it has common table
    expressions, which may be read more often than they are written. `makes`: it may make texts or lists of a row's
    values. `query` is the SELECT as DuckDB parses it.
    """

    relations: Mapping[str, int]
    expressions: bool
    makes: bool
    query: Mapping[str, Any]

    def once(self, relation: str) -> bool:
        """True where the statement surely reads the relation a single time."""
        return not self.expressions and self.relations.get(relation.casefold(), 0) == 1


def reads_of(statement: str) -> StatementReads:
    """The reads of a statement. Raises `BadStatementError` unless it is one SELECT that reads relations by their plain
    names alone.
    """
    row = _connection().cursor().execute("SELECT json_serialize_sql($1::VARCHAR)", [statement]).fetchone()
    try:
        parsed = json.loads(row[0]) if row else {}
    except RecursionError:
        raise BadStatementError(_TOO_DEEP) from None
    if parsed.get("error", True):
        raise BadStatementError(
            f"DuckDB cannot parse the statement as a SELECT: {parsed.get('error_message', 'no statement')}"
        )
    if len(parsed["statements"]) != 1:
        raise BadStatementError(f"the statement must be one SELECT, not {len(parsed['statements'])} statements")
    relations: Counter[str] = Counter()
    defined: set[str] = set()
    for node in _nodes(parsed["statements"]):
        defined.update(entry["key"].casefold() for entry in node.get("cte_map", {}).get("map", ()))
        match node.get("type"):
            case "BASE_TABLE":
                if node["schema_name"] or node["catalog_name"]:
                    path = ".".join(part for part in (node["catalog_name"], node["schema_name"]) if part)
                    raise BadStatementError(
                        f"the statement reads {path}.{node['table_name']}, but can read only the node's streams"
                    )
                relations[node["table_name"].casefold()] += 1
            case "TABLE_FUNCTION":
                name = node["function"].get("function_name", "").casefold()
                if name not in _FUNCTIONS:
                    raise BadStatementError(
                        f"the statement calls {name}() as a relation; only {', '.join(sorted(_FUNCTIONS))} can be "
                        "called as relations"
                    )
            case "SHOW_REF":
                raise BadStatementError("the statement must be a SELECT, not DESCRIBE or SHOW")
    read = {name: times for name, times in relations.items() if name not in defined}
    makes = any(map(makes_values, _nodes(parsed["statements"])))
    return StatementReads(read, bool(defined), makes, parsed["statements"][0]["node"])


def makes_values(node: Mapping[str, Any]) -> bool:
    """Tests whether a part of a parsed statement may make texts or lists of a row's values."""
    match node.get("class"):
        case "FUNCTION":
            return node["function_name"].casefold() not in _MAKES_NOTHING
        case "CAST":
            return node["type_expr"]["type_name"].casefold() not in _FIXED_TYPES
        case "OPERATOR":
            return str(node["type"]) == "ARRAY_SLICE"
        case "COLLATE" | "LAMBDA":
            return True
        case _:
            return False


def unended(statement: str) -> str:
    """One SELECT without its closing semicolon and the text behind that, so that it may stand in brackets."""
    text = statement.encode()
    starts = (at for at, _ in duckdb.tokenize(statement))  # positions, in bytes, outside of blanks, texts and comments
    end = next((at for at in starts if text[at : at + 1] == b";"), len(text))
    return text[:end].decode()


def schema_of(sql: str, relations: Mapping[str, pa.Schema]) -> pa.Schema:
    """The schema of a statement's rows, over relations with columns c0, c1, ... Raises `BadStatementError` where DuckDB
    refuses the statement, and `ExecutionError` for a column of a type that it cannot have.
    """
    cursor = _connection().cursor()
    try:
        for name, schema in relations.items():
            cursor.register(name, empty_table(positional_schema(schema)))
        with cursor.sql(f"SELECT * FROM ({sql}) LIMIT 0").to_arrow_reader(1) as reader:
            return pa.schema([pa.field(field.name, field.type) for field in reader.schema])
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise BadStatementError(f"DuckDB says: {_said(error)}") from error
    finally:
        cursor.close()


def names_of(statement: str, relations: Mapping[str, pa.Schema]) -> list[str]:
    """The names of a SELECT's columns, with duplicates where the SELECT has them: below another SELECT DuckDB renames
    duplicates. Raises `BadStatementError` where DuckDB refuses the statement.
    """
    cursor = _connection().cursor()
    try:
        for name, schema in relations.items():
            cursor.register(name, empty_table(schema))
        return [row[0] for row in cursor.execute(f"DESCRIBE {statement}").fetchall()]
    except duckdb.Error as error:
        raise BadStatementError(f"DuckDB says: {_said(error)}") from error
    finally:
        cursor.close()


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    stack = [value]
    while stack:
        match stack.pop():
            case dict() as node:
                yield node
                stack.extend(node.values())
            case list() as several:
                stack.extend(several)


def is_time_zone(name: str) -> bool:
    """Tests whether DuckDB knows a time zone of this name, in letters of any case."""
    return name.lower() in _time_zones()


@lru_cache(maxsize=1024)
def is_clock(zone: str) -> bool:
    """Tests whether DuckDB shows moments as clocks in this zone do: a time zone's name, or an offset such as GMT+5."""
    if is_time_zone(zone):
        return True
    try:
        _connection().cursor().execute("SELECT TIMESTAMPTZ '2000-01-01 00:00:00+00' AT TIME ZONE ?", [zone]).fetchall()
    except duckdb.Error:
        return False
    return True


@cache
def _time_zones() -> frozenset[str]:
    rows = _connection().cursor().execute("SELECT lower(name) FROM pg_timezone_names()").fetchall()
    return frozenset(name for (name,) in rows)


def _said(error: BaseException) -> str:
    return " ".join(str(error).split("\n\nLINE")[0].split())


@cache
def _connection() -> Connection:
    """A connection to an instance of this process that always stays empty."""
    config: dict[str, str | int] = {
        "threads": 1,
        "autoload_known_extensions": "false",
        "autoinstall_known_extensions": "false",
    }
    connection = opened(config)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET GLOBAL enable_external_access = false")
    connection.execute("SET GLOBAL lock_configuration = true")
    return connection
