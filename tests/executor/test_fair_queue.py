"""Turns of a queue: by principal, then by task, then in order of arrival."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tidegate.executor.runtime.fair_queue import FairQueue


@dataclass(frozen=True)
class Item:
    principal: str
    task: str
    number: int


ITEMS = st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("xyz")), max_size=30).map(
    lambda owners: [Item(principal, task, number) for number, (principal, task) in enumerate(owners)]
)


def filled(items: list[Item]) -> FairQueue[Item]:
    queue: FairQueue[Item] = FairQueue()
    for item in items:
        queue.append(item)
    return queue


@given(ITEMS)
def test_everything_comes_out_once_and_a_tasks_items_in_the_order_they_came(items: list[Item]) -> None:
    queue = filled(items)
    assert sorted(queue, key=lambda item: item.number) == items
    given_out = [queue.popleft() for _ in range(len(queue))]
    by_task = defaultdict(list)
    for item in given_out:
        by_task[item.principal, item.task].append(item.number)
    assert sum(map(len, by_task.values())) == len(items)
    assert all(numbers == sorted(numbers) for numbers in by_task.values())
    assert len(queue) == 0


@given(ITEMS)
def test_nobody_has_two_turns_while_another_who_waits_has_none(items: list[Item]) -> None:
    queue = filled(items)
    left = Counter(item.principal for item in items)
    last: str | None = None
    while len(queue):
        principal = queue.popleft().principal
        assert principal != last or left.total() == left[principal]
        left[principal] -= 1
        last = principal


@given(ITEMS, st.data())
def test_what_is_removed_does_not_come_out(items: list[Item], data: st.DataObject) -> None:
    queue = filled(items)
    removed = data.draw(st.lists(st.sampled_from(items), unique=True)) if items else []
    for item in removed:
        queue.remove(item)
    assert {queue.popleft() for _ in range(len(queue))} == set(items) - set(removed)
