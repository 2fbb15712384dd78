from __future__ import annotations

import weakref

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.core.sizes import batch_bytes

TEXTS = pa.record_batch({"text": ["a", "bcd" * 99, None, ""] * 25, "number": list(range(100))})


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99), st.booleans()), min_size=1))
def test_a_batch_has_the_bytes_that_arrow_counts_whichever_batches_were_asked_before(
    asked: list[tuple[int, int, bool]],
) -> None:
    kept = []
    for start, rows, keep in asked:
        batch = TEXTS.slice(start, rows)
        if keep:  # else the next batch may lie at this one's address
            kept.append(batch)
        for again in (batch, batch, *kept[-2:]):
            assert batch_bytes(again) == pa.ipc.get_record_batch_size(again)


def test_a_batch_is_not_held_for_having_been_asked() -> None:
    batch = TEXTS.slice(1)
    batch_bytes(batch)
    held = weakref.ref(batch)
    del batch
    assert held() is None
