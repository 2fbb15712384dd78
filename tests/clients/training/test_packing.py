"""Lists are packed first fit, every token once, and packed rows are batched and resumed like others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.client import Client
from tidegate.training import Loader, Pack, Shuffle
from tidegate.training.packing import packed

PLAN = sub.read_named_table("samples", {"tokens": sub.list_(sub.i32()), "n": sub.i64}).to_plan()
LISTS = [[number * 100 + at for at in range(number % 7)] for number in range(60)]
SAMPLES = pa.table({"tokens": pa.array(LISTS, pa.list_(pa.int32())), "n": range(60)})


def first_fit(lists: list[list[int]], length: int) -> list[list[list[int]]]:
    """The lists of each row, one list at a time."""
    rows: list[list[list[int]]] = []
    for tokens in lists:
        for start in range(0, len(tokens), length):
            part = tokens[start : start + length]
            fitting = (row for row in rows if sum(map(len, row)) + len(part) <= length)
            row = next(fitting, None)
            if row is None:
                rows.append(row := [])
            row.append(part)
    return rows


@given(st.lists(st.lists(st.integers(1, 99), max_size=9), max_size=25), st.integers(1, 8))
def test_lists_are_packed_as_one_list_at_a_time_would_be(lists: list[list[int]], length: int) -> None:
    tokens, segments, positions = packed(pa.array([[], *lists], pa.list_(pa.int64())).slice(1), Pack("c", length, -1))
    shown = []
    for row in range(len(tokens)):
        count = int(segments[row].max())
        shown.append([tokens[row][segments[row] == segment].tolist() for segment in range(1, count + 1)])
        assert (tokens[row][segments[row] == 0] == -1).all()
        for segment in range(1, count + 1):
            at = positions[row][segments[row] == segment]
            assert at.tolist() == list(range(len(at)))
    assert shown == first_fit(lists, length)


def loader(client: Client, **options: object) -> Loader:
    wanted = {"batch_size": 4, "shuffle": Shuffle(3, rows=10), "pack": Pack("tokens", 8), "prefetch": 0, **options}
    return Loader(client, PLAN, {"samples": [SAMPLES.slice(at, 5) for at in range(0, 60, 5)]}, **wanted)  # type: ignore[arg-type]


def test_every_token_is_in_one_packed_row_of_an_epoch(local_client: Client) -> None:
    batches = list(loader(local_client))
    assert {batch["tokens"].shape[1] for batch in batches} == {8}
    tokens = np.concatenate([batch["tokens"][batch["_segment"] > 0] for batch in batches])
    assert sorted(tokens.tolist()) == sorted(token for tokens in LISTS for token in tokens)


def test_packed_batches_go_on_from_every_state_on_two_ranks(local_client: Client) -> None:
    whole = loader(local_client)
    states, batches = [], []
    for batch in whole:
        states.append(whole.state_dict())
        batches.append(batch["tokens"].tolist())
    for number, state in enumerate(states[:-1], 1):
        shares = []
        for rank in range(2):
            resumed = loader(local_client, rank=rank, ranks=2)
            resumed.load_state_dict(state)
            shares.append([batch["tokens"].tolist() for batch in resumed])
        assert [[*first, *second] for first, second in zip(*shares, strict=True)] == batches[number:]


@pytest.mark.parametrize("wrong", [{"columns": ["tokens"]}, {"provenance": True}, {"pack": Pack("n", 8)}])
def test_packings_that_make_no_sense_are_refused(local_client: Client, wrong: dict[str, object]) -> None:
    with pytest.raises(tidegate.InvalidRequest):
        next(iter(loader(local_client, **wrong)))
    with pytest.raises(tidegate.InvalidRequest, match="length"):
        Pack("tokens", 0)
