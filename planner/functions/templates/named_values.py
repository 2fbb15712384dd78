"""Names for values that a template writes several times.

A name is a parameter of a one-element list's lambda, or a field of it: DuckDB evaluates the value once, or not at all
if a CASE skips it. The parameter is named after the value's SQL, so nested uses cannot confuse names. Lambdas are not
put into one another's bodies: the time to plan doubles with each level.

DuckDB has no subqueries in lambdas. So `subquery` marks them, and they are computed outside of all lambdas, as they
always are: DuckDB joins with them before it computes an expression. `written` moves them, and takes out the marks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import Final

_ATOM: Final = re.compile(
    r"[\w.\"]+|'[^']{0,40}'|CAST\('?[-\w.: ]{0,40}'? AS [\w(), ]{0,24}\)|struct_extract_at\(v\w{16}, \d+\)"
)

LONG: Final = 200
"""The characters of SQL from which on a value has a nest of other expressions inside."""
MACROS: Final = re.compile(r"\b(?:nullif|fmod|split_part|array_to_string|array_pop_back|list_contains)\(")
"""DuckDB's macros that mention an operand several times."""
_OTHERS: Final = re.compile(r" IN \(| BETWEEN |\blambda (?!p\d)")
"""The SQL that costs twice as much with each level of it: comparisons with several values, and bodies of lambdas."""

_BEGIN: Final = "\udc01"
_IN_LAMBDA: Final = "\udc02"
_END: Final = "\udc03"
"""Halves of characters, which no text of a plan can have: it came as UTF-8."""
_SUBQUERY: Final = re.compile(f"[{_BEGIN}{_IN_LAMBDA}][^{_END}]*{_END}")
_MARKS: Final = re.compile(f"[{_BEGIN}{_IN_LAMBDA}{_END}]")


def let(sql: str, body: Callable[[str], str]) -> str:
    """`body(sql)`, with `sql` named first if it is more than a column or a constant."""
    return let_all([sql], lambda names: body(names[0]))


def let_all(sqls: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of several values. Each long value gets a name."""
    return _named(sqls, [_ATOM.fullmatch(sql) is None for sql in sqls], body)


def let_written_out(sqls: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of several values, of which long ones get a name if DuckDB writes out operands of what is in `body`: a
    nest of them would double with each level, and twenty levels take minutes to plan.
    """
    if not any(map(_is_nest, sqls)):
        return body(sqls)
    inside = body([_name(sql) if _is_nest(sql) else sql for sql in sqls])
    if MACROS.search(inside):
        return let_bound(sqls, body)
    return let_compared(sqls, body) if _OTHERS.search(inside) else body(sqls)


def let_bound(sqls: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of values that DuckDB writes out several times when it reads a statement. Each long value gets a name, and
    so does one with a subquery: it would be run several times.
    """
    return _named(sqls, [*map(_is_nest, sqls)], body)


def let_compared(sqls: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of values that DuckDB writes out several times when it optimizes a statement. Subqueries are columns by
    then.
    """
    return _named(sqls, [*map(_is_long, sqls)], body)


def let_lazy(sqls: Sequence[str], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of values that DuckDB is not to compute in front of a CASE that skips them: each gets a name."""
    return _named(sqls, [True] * len(sqls), body)


def subquery(sql: str) -> str:
    """The SQL of a subquery, with marks around it."""
    return f"{_BEGIN}{sql}{_END}"


def in_lambda(sql: str) -> str:
    """SQL inside of a lambda: its subqueries are to be moved."""
    return sql.replace(_BEGIN, _IN_LAMBDA)


def written(sql: str) -> str:
    """SQL as DuckDB reads it, without marks. Where a lambda has a subquery, all subqueries are computed first: none
    reads a lambda's parameters.
    """
    if _END not in sql:
        return sql
    return _MARKS.sub("", _first_subqueries(sql) if _IN_LAMBDA in sql else sql)


def _first_subqueries(sql: str) -> str:
    moved = [*dict.fromkeys(_MARKS.sub("", one) for one in _SUBQUERY.findall(sql))]

    def inside(names: Sequence[str]) -> str:
        named = dict(zip(moved, names, strict=True))
        return _SUBQUERY.sub(lambda match: named[_MARKS.sub("", match.group())], sql)

    return _named(moved, [True] * len(moved), inside)


def _named(sqls: Sequence[str], has_name: Sequence[bool], body: Callable[[Sequence[str]], str]) -> str:
    """`body` of values of which some get names."""
    named = [sql for sql, has in zip(sqls, has_name, strict=True) if has]
    if not named:
        return body(sqls)
    parameter = _name("\0".join(named))
    if len(named) == 1:
        names, row = iter((parameter,)), named[0]
    else:
        names = iter(f"struct_extract_at({parameter}, {at})" for at in range(1, len(named) + 1))
        row = f"struct_pack({', '.join(f'f{at} := {sql}' for at, sql in enumerate(named, 1))})"
    inside = in_lambda(body([next(names) if has else sql for sql, has in zip(sqls, has_name, strict=True)]))
    return f"list_transform([{row}], lambda {parameter}: {inside})[1]"


def _is_long(sql: str) -> bool:
    return len(sql) > LONG


def _is_nest(sql: str) -> bool:
    return _is_long(sql) or _BEGIN in sql


def _name(sql: str) -> str:
    return "v" + hashlib.blake2s(sql.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
