"""The epoch in which a split was sealed, however long ago."""

from __future__ import annotations

import pickle

from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.ledger.sealed_epochs import SealedEpochs


@given(st.lists(st.sampled_from([0, 1, 1, 1, 2, 5]), max_size=40), st.integers(1, 5))
def test_every_split_has_the_epoch_in_which_it_was_sealed(splits: list[int], first: int) -> None:
    sealed, expected, last = SealedEpochs(), {}, 0
    for epoch, count in enumerate(splits, first):
        expected |= dict.fromkeys(range(last + 1, last + count + 1), epoch)
        last += count
        sealed.add(epoch, last)
    assert {number: sealed.of(number) for number in expected} == expected


def test_a_million_epochs_of_one_split_take_no_room() -> None:
    sealed = SealedEpochs()
    for epoch in range(1, 1_000_001):
        sealed.add(epoch, epoch)
    assert sealed.of(1) == 1
    assert sealed.of(777_777) == 777_777
    assert len(pickle.dumps(sealed)) < 1_000
