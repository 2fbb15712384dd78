"""Lists are packed first fit, every token once, in loaders and in plans. Packed rows are batched and resumed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import substrait.dataframe as sub
from hypothesis import given
from hypothesis import strategies as st

import tidegate
from tidegate.client import Client
from tidegate.relations import PackLists
from tidegate.training import Loader, Pack, Shuffle, pack_lists
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


TEXTS = sub.read_named_table("samples", {"tokens": sub.list_(sub.i32()), "n": sub.i64})


def rows_of(packed: pa.Table) -> list[tuple[list[list[int]], ...]]:
    """The lists of each row, by its segments."""
    return [
        tuple([t for t, s in zip(tokens, segments, strict=True) if s == at] for at in range(1, max(segments) + 1))
        for tokens, segments in zip(packed["tokens"].to_pylist(), packed["_segment"].to_pylist(), strict=True)
    ]


@pytest.mark.parametrize("channels", [1, 3])
def test_a_plan_packs_each_epoch_on_its_own(client: Client, channels: int) -> None:
    plan = pack_lists(TEXTS.filter(sub.col("n") >= 2), "tokens", 8, padding=-1, window_rows=10).to_plan()
    kept = LISTS[2:]
    expected = [tuple(row) for at in range(0, len(kept), 10) for row in first_fit(kept[at : at + 10], 8)]
    with client.create_task(plan, channels=channels) as task:
        for _ in range(2):
            packed = task.run_epoch({"samples": SAMPLES}).table()
            assert rows_of(packed) == expected
            assert {len(tokens) for tokens in packed["tokens"].to_pylist()} == {8}
    assert "packing into rows of 8 items, first fit within 10 rows" in client.explain(plan).text


def test_a_loader_of_a_plan_that_packs_goes_on_from_every_state(local_client: Client) -> None:
    plan = pack_lists(TEXTS, "tokens", 8).to_plan()

    def loader() -> Loader:
        return Loader(
            local_client,
            plan,
            {"samples": [SAMPLES.slice(at, 20) for at in range(0, 60, 20)]},
            batch_size=4,
            shuffle=Shuffle(3, rows=10),
            shapes={"tokens": (8,)},
            columns=["tokens"],
            prefetch=0,
        )

    whole = loader()
    states, batches = [], []
    for batch in whole:
        states.append(whole.state_dict())
        batches.append(batch["tokens"].tolist())
    tokens = [token for batch in batches for row in batch for token in row if token]
    assert sorted(tokens) == sorted(token for tokens in LISTS for token in tokens if token)
    for number, state in enumerate(states[:-1], 1):
        resumed = loader()
        resumed.load_state_dict(state)
        assert [batch["tokens"].tolist() for batch in resumed] == batches[number:]


def test_further_steps_know_the_types_of_packed_columns(local_client: Client) -> None:
    packed = pack_lists(TEXTS, "tokens", 8)
    longest = packed.select(sub.col("_position"), sub.col("tokens"))
    result = local_client.query(longest.to_plan(), {"samples": SAMPLES})
    assert result.schema.types == [pa.list_(pa.field("item", pa.int32(), nullable=False))] * 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"column": 1}, "NOT_A_LIST"),
        ({"column": 2}, "OUT_OF_RANGE"),
        ({"length": 0}, "BAD_PACKING"),
        ({"window_rows": 1 << 21}, "BAD_PACKING"),
        ({"padding": 1 << 31}, "BAD_PACKING"),
    ],
)
def test_packings_of_plans_that_make_no_sense_are_refused(
    local_client: Client, changes: dict[str, int], reason: str
) -> None:
    plan = pack_lists(TEXTS, "tokens", 8).to_plan()
    detail = plan.relations[0].root.input.extension_single.detail
    detail.Pack(PackLists(**{"column": 0, "length": 8, "window_rows": 10, **changes}))
    [problem] = local_client.validate(plan)
    assert problem.reason == reason


def test_a_packing_is_refused_where_rows_come_as_changes(local_client: Client) -> None:
    [problem] = local_client.validate(pack_lists(TEXTS, "tokens", 8).to_plan(), mode="continuous")
    assert problem.reason == "PACKING_OVER_CHANGES"
    with pytest.raises(tidegate.InvalidRequest, match="window_rows"):
        pack_lists(TEXTS, "tokens", 8, window_rows=0)


@pytest.mark.parametrize("padding", [1.5, "0", None, True])
def test_padding_that_is_no_whole_number_is_refused(padding: object) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="padding"):
        Pack("tokens", 8, padding)  # type: ignore[arg-type]


def test_padding_that_the_tokens_cannot_have_is_refused(local_client: Client) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="int32 items, and none of them is 2147483648") as refused:
        list(loader(local_client, pack=Pack("tokens", 8, 1 << 31)))
    assert refused.value.reason == "BAD_PACKING"


def test_lists_without_numbers_are_not_packed(local_client: Client) -> None:
    texts = sub.read_named_table("samples", {"texts": sub.list_(sub.string())}).to_plan()
    table = pa.table({"texts": [["a"], ["b", "c"]]})
    with pytest.raises(tidegate.InvalidRequest, match="no lists of numbers"):
        list(Loader(local_client, texts, {"samples": table}, batch_size=4, pack=Pack("texts", 8)))


@pytest.mark.parametrize(
    ("type_", "padding"), [(pa.bool_(), 7), (pa.float16(), 100_000), (pa.float64(), 10**400), (pa.int8(), -129)]
)
def test_a_padding_that_the_lists_type_does_not_have_is_refused(type_: pa.DataType, padding: int) -> None:
    lists = pa.array([[1]], pa.list_(pa.int8())).cast(pa.list_(type_))
    with pytest.raises(tidegate.InvalidRequest) as error:
        packed(lists, Pack("tokens", 2, padding))
    assert error.value.reason == "BAD_PACKING"


def test_a_padding_may_be_a_number_of_numpy() -> None:
    assert Pack("tokens", 2, np.int64(3)).padding == 3
