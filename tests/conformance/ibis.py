"""The ibis-substrait plans that do not say what their SQL says, and what they do say instead.

The producer writes a column of an enclosing query, and of a table's second use in a join, as if it were one of the
nearest row's own; it casts a constant to a type that cannot hold it. Nothing in these plans tells what was meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ..messages import messages


@dataclass(frozen=True, kw_only=True)
class Lost:
    """`written`: parts of expressions in the plan. `instead`: the SQL's text for them, and what the plan has there."""

    why: str
    written: tuple[str, ...]
    instead: tuple[tuple[str, str], ...]


LOST: Final = {
    "q02": Lost(
        why="the minimum is asked for all parts, not for the outer query's: ps_partkey is compared with itself",
        written=("equal($0, $0)",),
        instead=(('"t14"."p_partkey" = "t15"."ps_partkey"', '"t15"."ps_partkey" = "t15"."ps_partkey"'),),
    ),
    "q04": Lost(
        why="EXISTS asks for any line item, not for the outer order's: l_orderkey is compared with itself",
        written=("equal($0, $0)",),
        instead=(('"t1"."l_orderkey" = "t0"."o_orderkey"', '"t1"."l_orderkey" = "t1"."l_orderkey"'),),
    ),
    "q07": Lost(
        why="the customer's nation is the supplier: columns 44 and 45 (nation, joined twice) are written as 0 and 1",
        written=("equal($35, $0)",),
        instead=(
            ('"t8"."c_nationkey" = "t10"."n_nationkey"', '"t8"."c_nationkey" = "t5"."s_suppkey"'),
            ('"t10"."n_name" AS "cust_nation"', '"t5"."s_name" AS "cust_nation"'),
        ),
    ),
    "q11": Lost(
        why="the fraction 0.0001 is cast to decimal(38, 2), where it is 0.00",
        written=("cast(0.0001 as decimal(38, 2))",),
        instead=(("* 0.0001", "* CAST(0.0001 AS DECIMAL(38, 2))"),),
    ),
    "q20": Lost(
        why="the sum is not of the outer part and supplier: l_partkey is compared with l_orderkey, l_suppkey with it",
        written=("equal($1, $0)", "equal($2, $1)"),
        instead=(
            ('"t4"."l_partkey" = "t2"."ps_partkey"', '"t4"."l_partkey" = "t4"."l_orderkey"'),
            ('"t4"."l_suppkey" = "t2"."ps_suppkey"', '"t4"."l_suppkey" = "t4"."l_partkey"'),
        ),
    ),
    "q21": Lost(
        why="EXISTS asks for any order, and compares l_suppkey with l_quantity",
        written=("equal($0, $0)", "not_equal($2, $4)"),
        instead=(
            ('"t6"."l_orderkey" = "t10"."l1_orderkey"', '"t6"."l_orderkey" = "t6"."l_orderkey"'),
            ('"t7"."l_orderkey" = "t10"."l1_orderkey"', '"t7"."l_orderkey" = "t7"."l_orderkey"'),
            ('"t6"."l_suppkey" <> "t10"."l1_suppkey"', '"t6"."l_suppkey" <> "t6"."l_quantity"'),
            ('"t7"."l_suppkey" <> "t10"."l1_suppkey"', '"t7"."l_suppkey" <> "t7"."l_quantity"'),
        ),
    ),
    "q22": Lost(
        why="EXISTS compares o_custkey with o_orderkey, not with the outer customer's key",
        written=("equal($1, $0)",),
        instead=(('"t1"."o_custkey" = "t0"."c_custkey"', '"t1"."o_custkey" = "t1"."o_orderkey"'),),
    ),
}


def as_written(query: str, sql: str) -> str:
    """The query's SQL, changed to say what the plan does."""
    text = " ".join(sql.split())
    for meant, lost in LOST[query].instead:
        assert meant in text, f"{query}: {meant} is not in its SQL"
        text = text.replace(meant, lost)
    return text


def texts(plan: Any) -> set[str]:
    """Every function and cast in a plan, with its direct references as $0, $1, ... read by the stock bindings."""
    names = {
        extension.extension_function.function_anchor: extension.extension_function.name for extension in plan.extensions
    }
    return {_text(message, names) for message in messages(plan) if message.DESCRIPTOR.name == "Expression"}


def outer_references(plan: Any) -> int:
    return sum(message.DESCRIPTOR.name == "OuterReference" for message in messages(plan))


def _text(expression: Any, names: dict[int, str]) -> str:
    match expression.WhichOneof("rex_type"):
        case "selection":
            return f"${expression.selection.direct_reference.struct_field.field}"
        case "literal":
            return str(getattr(expression.literal, expression.literal.WhichOneof("literal_type")))
        case "scalar_function":
            call = expression.scalar_function
            arguments = ", ".join(_text(argument.value, names) for argument in call.arguments)
            return f"{names[call.function_reference].partition(':')[0]}({arguments})"
        case "cast":
            kind = expression.cast.type.WhichOneof("kind")
            type_ = getattr(expression.cast.type, kind)
            size = f"({type_.precision}, {type_.scale})" if kind == "decimal" else ""
            return f"cast({_text(expression.cast.input, names)} as {kind}{size})"
        case other:
            return str(other)
