"""A mixture takes each batch from a loader that the seed, the step and the weights choose."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tidegate
from tidegate.client import Client
from tidegate.training import Loader, Mixture, Shuffle

from . import oracle
from .conftest import numbers

WEIGHTS = {"web": 3.0, "code": 1.0, "books": 0.5}


def loader(client: Client, first: int, epochs: int | None = 2) -> Loader:
    rows = pa.table({"n": range(first, first + 20)})
    return Loader(
        client, numbers(), {"samples": rows}, batch_size=4, epochs=epochs, shuffle=Shuffle(1), prefetch=0, readers=1
    )


def mixture(client: Client, weights: dict[str, float] = WEIGHTS, epochs: int | None = 2, **options: Any) -> Mixture:
    firsts = {"web": 0, "code": 100, "books": 200}
    return Mixture({name: loader(client, first, epochs) for name, first in firsts.items()}, weights, seed=5, **options)


def shown(batches: Any) -> list[tuple[str, list[int]]]:
    return [(batch.source, batch["n"].tolist()) for batch in batches]


def test_the_loaders_are_chosen_as_in_plain_python_until_one_has_ended(local_client: Client) -> None:
    names, left = [], {"web": 10, "code": 10, "books": 10}
    for step in range(100):
        draw = (oracle.mixed(5, step) >> 11) * 2.0**-53 * 4.5
        name = "books" if draw < 0.5 else "code" if draw < 1.5 else "web"
        if left[name] == 0:
            break
        left[name] -= 1
        names.append(name)
    assert [name for name, _ in shown(mixture(local_client))] == names


def test_the_order_in_which_a_program_names_the_loaders_does_not_count(local_client: Client) -> None:
    whole = shown(mixture(local_client))
    names = sorted(WEIGHTS)
    loaders = mixture(local_client)._loaders
    assert list(loaders) != names
    other = Mixture({name: loaders[name] for name in names}, {name: WEIGHTS[name] for name in names}, seed=5)
    assert shown(other) == whole


def test_a_state_of_0_1_0_goes_on_in_the_order_of_the_mapping(local_client: Client) -> None:
    state = mixture(local_client).state_dict()
    del state["order"], state["checksum"]
    resumed = mixture(local_client)
    resumed.load_state_dict(state)
    draws = [(oracle.mixed(5, step) >> 11) * 2.0**-53 * 4.5 for step in range(8)]
    expected = ["web" if draw < 3 else "code" if draw < 4 else "books" for draw in draws]
    assert [name for name, _ in shown(resumed)][:8] == expected
    again = mixture(local_client)
    again.load_state_dict(resumed.state_dict())
    assert again.state_dict()["order"] == list(WEIGHTS)


@pytest.mark.parametrize("order", [["web", "code"], ["web", "code", "code"], ["web", "code", 1], "web", None])
def test_a_state_whose_order_does_not_have_each_loader_once_is_refused(local_client: Client, order: object) -> None:
    state = {**mixture(local_client).state_dict(), "order": order}
    with pytest.raises(tidegate.InvalidRequest, match="each loader of the mixture once") as refused:
        mixture(local_client).load_state_dict(state)
    assert refused.value.reason == "BAD_STATE"


def test_weights_of_numpy_are_in_the_state_as_plain_numbers(local_client: Client) -> None:
    weights = dict(zip(WEIGHTS, np.array([3, 1, 0.5], np.float32), strict=True))
    state = mixture(local_client, weights).state_dict()
    assert json.loads(json.dumps(state))["weights"] == WEIGHTS


def test_each_loader_keeps_its_own_order(local_client: Client) -> None:
    alone = [batch["n"].tolist() for batch in loader(local_client, 100)]
    mixed = [rows for name, rows in shown(mixture(local_client, ends="all")) if name == "code"]
    assert mixed == alone


def test_the_others_go_on_without_a_loader_that_has_ended(local_client: Client) -> None:
    assert Counter(name for name, _ in shown(mixture(local_client, ends="all"))) == dict.fromkeys(WEIGHTS, 10)
    assert list(local_client.tasks()) == []


def test_a_mixture_goes_on_from_every_state(local_client: Client) -> None:
    whole = mixture(local_client, ends="all")
    batches, states = [], [whole.state_dict()]
    for batch in whole:
        batches.append((batch.source, batch["n"].tolist()))
        states.append(json.loads(json.dumps(whole.state_dict())))
    for number in range(0, len(states) - 1, 4):
        resumed = mixture(local_client, {"web": 1.0, "code": 1.0, "books": 1.0}, ends="all")
        resumed.load_state_dict(states[number])
        assert shown(resumed) == batches[number:]


def test_weights_may_change_between_steps_and_are_part_of_the_state(local_client: Client) -> None:
    changed = mixture(local_client, epochs=None)
    batches = iter(changed)
    next(batches)
    changed.weights = {"web": 0, "code": 0, "books": 1}
    assert {next(batches).source for _ in range(5)} == {"books"}
    resumed = mixture(local_client, epochs=None)
    resumed.load_state_dict(changed.state_dict())
    assert next(iter(resumed)).source == "books"
    changed.close()
    resumed.close()


@pytest.mark.parametrize(
    "weights",
    [
        {"web": 1.0},
        *({"web": web, "code": 1.0, "books": 1.0} for web in (-1.0, float("nan"), float("inf"), 10**400, "1", None)),
        {"web": 0.0, "code": 0.0, "books": 0.0},
        dict.fromkeys(WEIGHTS, 1e308),
    ],
)
def test_weights_that_make_no_sense_are_refused(local_client: Client, weights: dict[str, Any]) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="weight"):
        mixture(local_client, weights)


def test_names_that_are_no_texts_are_refused() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="names"):
        Mixture({1: None, "b": None}, {1: 1.0, "b": 1.0})  # type: ignore[dict-item]


def test_a_state_of_another_mixture_is_refused(local_client: Client) -> None:
    state = mixture(local_client).state_dict()
    with pytest.raises(tidegate.Refused, match="seed 6"):
        mixture(local_client).load_state_dict({**state, "seed": 6})
    with pytest.raises(tidegate.InvalidRequest, match="no mixture's state"):
        mixture(local_client).load_state_dict({})
    parts = state.keys() - {"order", "checksum"}
    missing = [{name: value for name, value in state.items() if name != left} for left in parts]
    odd = [{**state, "step": step} for step in (-1, 1.0, True, "1", None)]
    for damaged in (None, [], *missing, *odd, {**state, "loaders": []}, {**state, "weights": 1}):
        with pytest.raises(tidegate.InvalidRequest, match="no mixture's state") as refused:
            mixture(local_client).load_state_dict(damaged)
        assert refused.value.reason == "BAD_STATE"


def test_a_state_with_another_step_weight_order_or_loader_is_refused(local_client: Client) -> None:
    whole = mixture(local_client)
    first = whole.state_dict()
    batches = iter(whole)
    read = [next(batches) for _ in range(5)]
    state = whole.state_dict()
    wrong: list[dict[str, Any]] = [
        {"step": state["step"] + 1},
        {"weights": {name: weight + 1 for name, weight in state["weights"].items()}},
        {"order": state["order"][::-1]},
        {"loaders": {**state["loaders"], "web": first["loaders"]["web"]}},
        {"checksum": None},
    ]
    for change in wrong:
        with pytest.raises(tidegate.InvalidRequest, match="checksum") as refused:
            whole.load_state_dict({**state, **change})
        assert refused.value.reason == "BAD_STATE"
    assert shown(read) + shown(batches) == shown(mixture(local_client))


def test_names_in_a_state_that_are_no_texts_are_refused(local_client: Client) -> None:
    state = mixture(local_client).state_dict()
    with pytest.raises(tidegate.Refused, match="a mixture of 1 with"):
        mixture(local_client).load_state_dict({**state, "loaders": {1: {}}})
    with pytest.raises(tidegate.InvalidRequest, match="weights for 1"):
        mixture(local_client).load_state_dict({**state, "weights": {1: 2}})


def test_a_state_that_does_not_fit_one_loader_leaves_all_where_they_are(local_client: Client) -> None:
    batches = shown(mixture(local_client))
    state = mixture(local_client).state_dict()
    whole = mixture(local_client)
    read = iter(whole)
    first = shown([next(read) for _ in range(5)])
    other = {**state["loaders"]["books"], "batch_size": 5}
    with pytest.raises(tidegate.Refused, match=r"batch_size \(the state's: 5, this loader's: 4\)"):
        whole.load_state_dict({**state, "loaders": {**state["loaders"], "books": other}})
    assert first + shown(read) == batches


def test_a_state_that_was_checked_is_loaded_without_another_check(
    local_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = mixture(local_client)
    read = iter(before)
    shown([next(read) for _ in range(5)])
    state = before.state_dict()
    rest = shown(read)
    whole = mixture(local_client)
    at = whole.state_dict()
    checked = whole.check_state(state)
    assert whole.state_dict() == at
    monkeypatch.setattr(Loader, "check_state", None)
    checked.load()
    assert shown(whole) == rest


def test_a_mixture_takes_loaders_alone_and_each_of_them_once(local_client: Client) -> None:
    """At once, not at a batch in the middle: a mixture has no epochs that end, and two loops end each other."""
    inner: Any = mixture(local_client)
    with pytest.raises(tidegate.InvalidRequest, match="web is of Mixture"):
        Mixture({"web": inner, "code": loader(local_client, 0)}, {"web": 1, "code": 1})
    one = loader(local_client, 0)
    with pytest.raises(tidegate.InvalidRequest, match="one has two names"):
        Mixture({"web": one, "code": one}, {"web": 1, "code": 1})
