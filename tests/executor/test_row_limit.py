"""A row of more bytes than `memory_limit` is one error, whichever relation makes it of smaller rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pytest

import tidegate
from tidegate.relations import Unnest

from ..conformance.resident_kinds import KINDS, planned
from .operated_plans import I64, TEXT, list_of, operated, plan, read

MIB: Final = 1 << 20
LIMIT: Final = 32 * MIB
TEXT_BYTES: Final = 20 * MIB
LONG: Final = "x" * TEXT_BYTES
LEFT: Final = pa.table({"k": [1, 2], "g": [1, 1], "t": ["a", LONG]})
LISTS: Final = pa.table({"k": [1, 2], "items": pa.array([["a"], [LONG]], pa.list_(pa.string()))})


def unnested() -> bytes:
    return plan(operated(Unnest(columns=[1]), read("rows", {"k": I64, "items": list_of(TEXT)})), ["k", "items", "item"])


def sql(text: str) -> Callable[[], bytes | str]:
    return lambda: planned(text)


PLANS: Final = {
    "selection": sql("SELECT k, t, t AS u FROM l"),
    "sort": sql("SELECT k, t, t AS u FROM l ORDER BY k"),
    "join": sql("SELECT l.k, l.t, r.t AS u FROM l JOIN r ON l.k = r.k"),
    "aggregate": sql("SELECT g, max(t) AS t, min(t) AS u FROM l WHERE k > 1 GROUP BY g"),
    "merge join": KINDS["merge join"].plan,
    "unnest": unnested,
}


@pytest.mark.parametrize("kind", PLANS)
def test_a_row_beyond_the_limit_names_the_relation_that_makes_it(kind: str) -> None:
    with tidegate.local() as client, client.create_task(PLANS[kind](), memory_limit=LIMIT) as task:
        fed = {name: LISTS if name == "rows" else LEFT for name in task.sources}
        with pytest.raises(tidegate.TaskFailed, match=r"makes a row of 4[12],\d{3},\d{3} bytes") as refused:
            task.run_epoch(fed).table()
    assert refused.value.reason == "ROW_TOO_LARGE"
