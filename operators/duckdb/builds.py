"""Checks that a strict statement's hash joins stayed small enough to give their rows in a repeatable order.

A hash join that does not fit in memory gives its rows in an order that differs from run to run. The hash tables of an
instance's joins must together stay below a quarter of its memory. Where the inputs cannot exceed that, there is no
check. Else the statement is run to its end before any row is handed out, and its profile tells the real sizes of the
hash tables. If these are too large, the statement is run again in its ordered form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from ...proto.errors import ExecutionError

BUILD_SHARE: Final = 4
"""The builds of an instance may take one part in so many of its memory."""

#: The most bytes that a hash table takes per byte of the rows in it.
_GROWTH = 4
#: The assumed bytes of a value of variable width, where they are unknown: an upper bound for most data, checked
#: afterwards.
TEXT_BYTES = 256


def bound(memory_limit: int) -> int:
    """The most bytes that the builds of an instance may have together."""
    return memory_limit // BUILD_SHARE


def row_bytes(types: Iterable[pa.DataType]) -> int:
    """About the bytes of a row in memory, rather too many."""
    return sum(_width(type_) for type_ in types)


def _width(type_: pa.DataType) -> int:
    try:
        return max(int(type_.bit_width) // 8, 1)
    except ValueError:
        return TEXT_BYTES


def harmless(memory_limit: int) -> int:
    """The most bytes of all inputs together for which no builds made of them can be too large."""
    return bound(memory_limit) // _GROWTH


def has_hash_join(plan: str) -> bool:
    """True where a plan (EXPLAIN in JSON) builds a hash table for a join."""
    return any("HASH_JOIN" in node["name"] for root in json.loads(plan) for node in _nodes(root))


@dataclass(frozen=True, slots=True)
class Build:
    """A join's hash table: the join's conditions, by the columns' names in the statement, and about the bytes it
    keeps.
    """

    conditions: str
    size: int


@dataclass(frozen=True, slots=True)
class Excess:
    """Joins that together keep more bytes than an instance may, with those joins that are known one by one."""

    size: int
    builds: tuple[Build, ...] = ()


def excess(profile: str, memory_limit: int, text_bytes_per_row: int) -> Excess | None:
    """The excess of a statement's joins by its profile; None where the order of the rows is repeatable."""
    document = json.loads(profile)
    joins = [node for root in document["operator"] for node in _nodes(root) if "HASH_JOIN" in node["type"]]
    if not joins or document["system"]["peak_buffer_memory"] <= bound(memory_limit):
        return None
    builds = [Build(_conditions(join), _build_bytes(join, text_bytes_per_row)) for join in joins]
    size = sum(build.size for build in builds)
    if size <= bound(memory_limit):
        return None
    return Excess(size, tuple(sorted(builds, key=lambda build: build.size, reverse=True)))


def too_large(excess_memory: Excess, memory_limit: int, plan_path: str, joins: Sequence[str]) -> ExecutionError:
    """The error for joins that are too large. `plan_path` is the fragment's plan path, `joins` are the plan paths of
    its joins. Only the conditions tell which join of the plan made which build: DuckDB chooses the order of joins
    itself.
    """
    several = max(len(joins), len(excess_memory.builds)) > 1
    subject = "the joins" if several else "the join"
    if several and joins:
        subject += f" at {' and '.join(joins)}"
    conditions = [f"on {build.conditions}" for build in excess_memory.builds if build.conditions]
    if several:
        sizes = ", ".join(
            f"{build.size >> 20} MiB on {build.conditions or 'no columns'}" for build in excess_memory.builds
        )
        kept = f"{subject} keep about {excess_memory.size >> 20} MiB in memory together" + (
            f" ({sizes})" if sizes else ""
        )
    else:
        kept = " ".join([subject, *conditions, f"keeps about {excess_memory.size >> 20} MiB in memory"])
    return ExecutionError(
        f"{joins[0] if len(joins) == 1 else plan_path}: {kept}; above a quarter of memory_limit "
        f"({bound(memory_limit) >> 20} MiB) the order of the joined rows is not repeatable: give the task more "
        'memory, or spill="ordered", or determinism="relaxed"',
        reason="JOIN_BUILD_TOO_LARGE",
    )


def _conditions(join: dict[str, Any]) -> str:
    conditions = join["extra_info"].get("Conditions")
    return " and ".join(str(text) for text in (conditions if isinstance(conditions, list) else [conditions]) if text)


def _build_bytes(join: dict[str, Any], text_bytes_per_row: int) -> int:
    """About the bytes of a join's hash table. It is built from the join's second child."""
    children = join.get("children", [])
    build = children[1] if len(children) > 1 else join
    return int(build["intermediate_size_bytes"] + build["intermediate_rows"] * text_bytes_per_row) * _GROWTH


def _nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.get("children", ()))
