"""Whether a strict statement's hash joins stayed small enough to give their rows in a repeatable order.

A hash join that does not fit in memory gives its rows in an order that differs from run to run. The sum of what the
joins of an instance build must stay below a quarter of its memory. Where the inputs cannot exceed that, nothing is
done; else the statement is run to its end before anyone sees a row, its profile tells the builds' real sizes, and if
they are too large it is run again in its ordered form.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ...proto.errors import ExecutionError

#: What a hash table takes per byte of the rows in it, at most.
_GROWTH = 4
#: What a value of variable width is taken for where nothing tells: an upper bound for most data, checked afterwards.
TEXT_BYTES = 256


def bound(memory_limit: int) -> int:
    """How large the builds of an instance may be together."""
    return memory_limit // 4


def row_bytes(types: Iterable[pa.DataType]) -> int:
    """About how many bytes a row takes in memory, rather too many."""
    return sum(_width(type_) for type_ in types)


def _width(type_: pa.DataType) -> int:
    try:
        return max(int(type_.bit_width) // 8, 1)
    except ValueError:
        return TEXT_BYTES


def harmless(memory_limit: int) -> int:
    """How large all inputs may be together so that no builds made of them can be too large."""
    return bound(memory_limit) // _GROWTH


def has_hash_join(plan: str) -> bool:
    """Whether a plan (EXPLAIN in JSON) builds a hash table to join with."""
    return any("HASH_JOIN" in node["name"] for root in json.loads(plan) for node in _nodes(root))


@dataclass(frozen=True, slots=True)
class Build:
    """What a join compares, in the names that columns have in the statement, and about how much it keeps."""

    conditions: str
    size: int


@dataclass(frozen=True, slots=True)
class Excess:
    """Joins that together keep more than an instance may, as far as they are known one by one."""

    size: int
    builds: tuple[Build, ...] = ()


def excess(profile: str, memory_limit: int, text_bytes_per_row: int) -> Excess | None:
    """Nothing where the profile shows that the order of the rows is repeatable."""
    found = json.loads(profile)
    joins = [node for root in found["operator"] for node in _nodes(root) if "HASH_JOIN" in node["type"]]
    if not joins or found["system"]["peak_buffer_memory"] <= bound(memory_limit):
        return None
    builds = [Build(_conditions(join), _build_bytes(join, text_bytes_per_row)) for join in joins]
    size = sum(build.size for build in builds)
    if size <= bound(memory_limit):
        return None
    return Excess(size, tuple(sorted(builds, key=lambda build: build.size, reverse=True)))


def too_large(found: Excess, memory_limit: int, place: str, joins: Sequence[str]) -> ExecutionError:
    """`place` is the fragment's, `joins` are those of its joins. Which join of the plan is which build only their
    conditions tell: DuckDB joins in an order of its own.
    """
    several = max(len(joins), len(found.builds)) > 1
    subject = "the joins" if several else "the join"
    if several and joins:
        subject += f" at {' and '.join(joins)}"
    conditions = [f"on {build.conditions}" for build in found.builds if build.conditions]
    if several:
        each = ", ".join(f"{build.size >> 20} MiB on {build.conditions or 'no columns'}" for build in found.builds)
        kept = f"{subject} keep about {found.size >> 20} MiB in memory together" + (f" ({each})" if each else "")
    else:
        kept = " ".join([subject, *conditions, f"keeps about {found.size >> 20} MiB in memory"])
    return ExecutionError(
        f"{joins[0] if len(joins) == 1 else place}: {kept}; above a quarter of the memory limit "
        f"({bound(memory_limit) >> 20} MiB) the order of {'their' if several else 'its'} rows would not be repeatable. "
        'Give the task more memory, or spill="ordered", or run it relaxed',
        reason="JOIN_BUILD_TOO_LARGE",
    )


def _conditions(join: dict[str, Any]) -> str:
    found = join["extra_info"].get("Conditions")
    return " and ".join(str(text) for text in (found if isinstance(found, list) else [found]) if text)


def _build_bytes(join: dict[str, Any], text_bytes_per_row: int) -> int:
    """The second child is the side that is built."""
    children = join.get("children", [])
    build = children[1] if len(children) > 1 else join
    return int(build["intermediate_size_bytes"] + build["intermediate_rows"] * text_bytes_per_row) * _GROWTH


def _nodes(root: dict[str, Any]) -> Iterator[dict[str, Any]]:
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(node.get("children", ()))
