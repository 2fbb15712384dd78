"""The bytes that the expressions of a user's SELECT make of each byte of a row.

DuckDB counts none of the texts and lists that a statement makes of a row, of which there may be many: `t || t || t`
makes two texts, which have five times the bytes of `t`. The count is an upper bound if each function makes no more
bytes than its arguments have. Some do, as `repeat(t, n)`: nothing bounds those.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final, TypeAlias

from ...operators.duckdb.sql_text import makes_values
from ..ir.walk import unroll

Parsed: TypeAlias = Mapping[str, Any]
"""A query, a relation or an expression as DuckDB parses it."""
Size: TypeAlias = Counter[tuple[str, str]]
"""The bytes of a value at most: how often it has each column of a stream."""
Columns: TypeAlias = dict[str, Size]
"""Columns by their names in lower case. An expression is a column without a name."""

_QUERIES: Final = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"})
_RELATIONS: Final = frozenset(
    {"BASE_TABLE", "SUBQUERY", "JOIN", "TABLE_FUNCTION", "EXPRESSION_LIST", "PIVOT", "COLUMN_DATA", "EMPTY"}
)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The names that a part of the statement may use: columns, aliases of the same SELECT, common table expressions
    with what is made for each, and those of the query around it.
    """

    columns: Columns = field(default_factory=dict)
    aliases: Columns = field(default_factory=dict)
    common: Mapping[str, tuple[Columns, Size]] = field(default_factory=dict)
    around: _Scope | None = None

    def size_of(self, path: Sequence[str]) -> Size:
        """The size of the column that the path may name: a column, its relation before it, fields of it behind it."""
        scope: _Scope | None = self
        while scope is not None:
            for names in (scope.columns, scope.aliases):
                sizes = [names[part] for part in path if part in names]
                if sizes:
                    return _largest(sizes)
            scope = scope.around
        return _largest(self.columns.values())


@dataclass(frozen=True, slots=True)
class _Part:
    parsed: Parsed
    scope: _Scope


_Step: TypeAlias = Generator[_Part, Columns, Columns]


def growth(query: Parsed, streams: Mapping[str, Iterable[str]]) -> int:
    """The bytes that the query makes of a byte, at least 1. `streams` has the texts, lists and other columns of
    variable width of each stream. Names differ in more than case.
    """
    common = {
        name.casefold(): ({column.casefold(): Size({(name, column): 1}) for column in columns}, Size())
        for name, columns in streams.items()
    }
    walk = _Walk()
    unroll(walk.step, _Part(query, _Scope(common=common)))
    return max(walk.bytes_made.values(), default=1)


class _Walk:
    """What the parts of a statement make that have been visited, as a sum."""

    def __init__(self) -> None:
        self.bytes_made = Size()

    def step(self, part: _Part) -> _Step:
        kind = part.parsed.get("type")
        if "class" in part.parsed:
            return self._expression(part.parsed, part.scope)
        match kind:
            case "SELECT_NODE":
                return self._select(part.parsed, part.scope)
            case "SET_OPERATION_NODE" | "RECURSIVE_CTE_NODE":
                return self._several(part.parsed, part.scope)
            case _:
                return self._relation(part.parsed, part.scope)

    # ---------------------------------------------------------------------------------------------------- queries

    def _select(self, select: Parsed, scope: _Scope) -> _Step:
        scope = yield from self._with_common(select, scope)
        below = yield _Part(select["from_table"], scope)
        scope = _Scope(columns=below, common=scope.common, around=scope)
        columns: Columns = {}
        for at, item in enumerate(select["select_list"]):
            size = _size((yield _Part(item, scope)))
            if item["class"] == "STAR":
                columns = _united(columns, below)
            name = (item.get("alias") or (item.get("column_names") or [f"{at}"])[-1]).casefold()
            columns[name] = size
            scope = replace(scope, aliases=columns)
        others = {key: value for key, value in select.items() if key not in ("select_list", "from_table", "cte_map")}
        for inner in _inner(others):
            yield _Part(inner, scope)
        return columns

    def _several(self, operation: Parsed, scope: _Scope) -> _Step:
        """A set operation or a recursion, whose columns are those of its first query."""
        scope = yield from self._with_common(operation, scope)
        queries = operation.get("children") or [operation["left"], operation["right"]]
        columns = yield _Part(queries[0], scope)
        if operation["type"] == "RECURSIVE_CTE_NODE":
            scope = replace(scope, common={**scope.common, operation["cte_name"].casefold(): (columns, Size())})
        for query in queries[1:]:
            others = (yield _Part(query, scope)).values()
            columns = {name: size | other for (name, size), other in zip(columns.items(), others, strict=False)}
        for inner in _inner(operation.get("modifiers", ())):
            yield _Part(inner, _Scope(columns=columns, common=scope.common, around=scope))
        return columns

    def _with_common(self, query: Parsed, scope: _Scope) -> Generator[_Part, Columns, _Scope]:
        """The scope with the query's common table expressions. Those count where they are read."""
        for entry in query.get("cte_map", {}).get("map", ()):
            before = self.bytes_made
            self.bytes_made = Size()
            columns = yield _Part(entry["value"]["query_node"], scope)
            named = _renamed(columns, entry["value"].get("aliases", ()))
            scope = replace(scope, common={**scope.common, entry["key"].casefold(): (named, self.bytes_made)})
            self.bytes_made = before
        return scope

    # -------------------------------------------------------------------------------------------------- relations

    def _relation(self, relation: Parsed, scope: _Scope) -> _Step:
        """A relation of a FROM clause. The relations on the right of a join may read those on its left."""
        if relation["type"] == "BASE_TABLE":
            columns, bytes_made = scope.common.get(relation["table_name"].casefold(), ({}, Size()))
            self.bytes_made += bytes_made
            return _renamed(columns, relation.get("column_name_alias", ()))
        columns = {}
        for inner in _inner(relation):
            below = yield _Part(inner, _Scope(columns=columns, common=scope.common, around=scope))
            if "class" not in inner or relation["type"] != "JOIN":
                columns = _united(columns, below)
        return _renamed(columns, relation.get("column_name_alias", ()))

    # ------------------------------------------------------------------------------------------------ expressions

    def _expression(self, expression: Parsed, scope: _Scope) -> _Step:
        match expression["class"]:
            case "COLUMN_REF":
                return {"": scope.size_of([name.casefold() for name in expression["column_names"]])}
            case "LAMBDA":
                return (yield _Part(expression["expr"], scope))
        size = _largest(scope.columns.values()) if expression["class"] == "STAR" else Size()
        makes, inner = makes_values(expression), list(_inner(expression))
        for operand in sorted(inner, key=_is_lambda):
            if _is_lambda(operand):
                items = {name.casefold(): size for name in _parameters(operand["lhs"])}
                below = yield _Part(operand, _Scope(columns=items, common=scope.common, around=scope))
            else:
                below = yield _Part(operand, scope)
            adds = makes and expression["class"] == "FUNCTION" and not _is_lambda(operand)
            size = size + _size(below) if adds else size | _size(below)
        if makes:
            self.bytes_made += size
        return {"": size}


def _inner(value: Any) -> Iterator[Parsed]:
    """The queries, relations and expressions right inside of a part of the statement, in order."""
    pending = list(value.values() if isinstance(value, Mapping) else value)[::-1]
    while pending:
        match pending.pop():
            case dict() as parsed if "class" in parsed or parsed.get("type") in _QUERIES | _RELATIONS:
                yield parsed
            case dict() as parsed:
                pending.extend(list(parsed.values())[::-1])
            case list() as several:
                pending.extend(several[::-1])


def _is_lambda(expression: Parsed) -> bool:
    return expression.get("class") == "LAMBDA"


def _parameters(expression: Parsed) -> Iterator[str]:
    """The names of a lambda's parameters: one column, or several in a row."""
    yield from expression.get("column_names", ())
    for inner in _inner(expression):
        yield from inner.get("column_names", ())


def _renamed(columns: Columns, names: Sequence[str]) -> Columns:
    """The columns, of which the first have other names."""
    old = list(columns)
    new = [*(name.casefold() for name in names), *old[len(names) :]]
    sizes = [*columns.values(), *[_largest(columns.values())] * len(names)]
    return dict(zip(new, sizes, strict=False))


def _united(columns: Columns, others: Columns) -> Columns:
    """The columns of both. Columns of one name are as large as the larger one."""
    return {**columns, **{name: size | columns.get(name, Size()) for name, size in others.items()}}


def _size(columns: Columns) -> Size:
    return _largest(columns.values())


def _largest(sizes: Iterable[Size]) -> Size:
    return reduce(lambda one, other: one | other, sizes, Size())
