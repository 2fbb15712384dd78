"""Walks over trees of any depth without recursion.

A step is a generator: it yields the children it needs, one at a time, is sent each child's result, and returns its
own. `unroll` drives the steps with a stack of its own, so a plan of 100,000 levels costs memory, not a stack
overflow::

    def depth(relation):
        below = 0
        for child in inputs(relation):
            below = max(below, (yield child))
        return below + 1

    unroll(depth, plan.root)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, TypeVar

from ...operators.core.interrupts import look

Node = TypeVar("Node")
Result = TypeVar("Result")

_STEPS: Final = 1_000
"""The steps between two looks whether the work is to stop: some milliseconds."""


def unroll(step: Callable[[Node], Generator[Node, Result, Result]], root: Node) -> Result:
    """The result of `step(root)`. Each child that a step yields is answered with the result of the child's own step.

    A long walk stops where the thread's watch says so.
    """
    top, around, steps = step(root), list[Generator[Node, Any, Result]](), 0
    result: Any = None  # a step that begins is sent None
    error: BaseException | None = None
    while True:
        steps += 1
        if not steps % _STEPS:
            look()
        try:
            child = top.send(result) if error is None else top.throw(error)
        except StopIteration as stop:
            result, error = stop.value, None
        except BaseException as raised:  # noqa: BLE001 - handed to the parent, which may add its place
            error = raised
        else:
            around.append(top)
            top, result, error = step(child), None, None
            continue
        if around:
            top = around.pop()
        elif error is not None:
            raise error
        else:
            answer: Result = result
            return answer


def each_once(root: Node, below: Callable[[Node], Sequence[Node]]) -> Iterator[Node]:
    """The root and all nodes below it, each once, in order, a node before those below it."""
    seen: set[Node] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            stack.extend(reversed(below(node)))
