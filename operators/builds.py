"""Whether a strict statement's hash joins stayed small enough to give their rows in a repeatable order.

A hash join that does not fit in memory gives its rows in an order that differs from run to run. The sum of what the
joins of an instance build must stay below a quarter of its memory. Where the inputs cannot exceed that, nothing is
done; else the statement is run to its end before anyone sees a row, and its profile tells the builds' real sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from ..proto.errors import ExecutionError

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


def could_exceed(input_bytes: int, memory_limit: int) -> bool:
    return input_bytes * _GROWTH > bound(memory_limit)


def has_hash_join(plan: str) -> bool:
    """Whether a plan (EXPLAIN in JSON) builds a hash table to join with."""
    return any("HASH_JOIN" in node["name"] for root in json.loads(plan) for node in _nodes(root))


def check(profile: str, memory_limit: int, text_bytes_per_row: int, place: str) -> None:
    """Refuse rows whose order the profile does not show to be repeatable."""
    found = json.loads(profile)
    joins = [node for root in found["operator"] for node in _nodes(root) if "HASH_JOIN" in node["type"]]
    if not joins or found["system"]["peak_buffer_memory"] <= bound(memory_limit):
        return
    sizes = [_build_bytes(join, text_bytes_per_row) for join in joins]
    if sum(sizes) > bound(memory_limit):
        largest = joins[sizes.index(max(sizes))]["extra_info"]
        raise too_large(largest.get("Conditions"), sum(sizes), memory_limit, place)


def too_large(conditions: object, size: int, memory_limit: int, place: str) -> ExecutionError:
    texts = conditions if isinstance(conditions, list) else [conditions]
    join = " and ".join(str(text) for text in texts if text) or "an inner query"
    return ExecutionError(
        f"{place}: the join on {join} keeps about {size >> 20} MiB in memory; above a quarter of the memory limit "
        f"({bound(memory_limit) >> 20} MiB) the order of its rows would not be repeatable. Give the task more memory, "
        "or run it relaxed",
        reason="JOIN_BUILD_TOO_LARGE",
    )


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
