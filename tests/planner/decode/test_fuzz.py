"""Class of bug: anything but a `PlanError` from bytes or text that nobody vouches for."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from tidegate.planner.decode import decode_plan, poison
from tidegate.proto.errors import PlanError
from tidegate.proto.values import PlanBytes

from .plans import plan_class

PLANS = sorted((Path(__file__).parents[2] / "conformance" / "plans").glob("*/q*.bin"))


def survives(plan: PlanBytes) -> None:
    with contextlib.suppress(PlanError):
        assert decode_plan(plan).plan.root is not poison.RELATION


@given(st.binary(max_size=200))
def test_any_bytes_are_a_plan_or_a_plan_error(data: bytes) -> None:
    survives(PlanBytes(binary=data))


@given(st.text(max_size=200))
def test_any_text_is_a_plan_or_a_plan_error(text: str) -> None:
    survives(PlanBytes(json=text))


@given(st.sampled_from(PLANS), st.data())
def test_a_plan_with_bytes_changed_is_a_plan_or_a_plan_error(path: Path, data: st.DataObject) -> None:
    plan = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        if not plan:
            break
        where = data.draw(st.integers(0, len(plan) - 1))
        match data.draw(st.sampled_from(["set", "delete", "insert", "cut", "double"])):
            case "set":
                plan[where] = data.draw(st.integers(0, 255))
            case "delete":
                del plan[where]
            case "insert":
                plan.insert(where, data.draw(st.integers(0, 255)))
            case "cut":
                del plan[where + 1 :]
            case _:
                plan[where:where] = plan[where : where + 20]
    survives(PlanBytes(binary=bytes(plan)))


def _change(value: Any, data: st.DataObject) -> Any:
    """The JSON with one value in it replaced, removed or doubled."""
    path: list[tuple[Any, Any]] = []
    here = value
    while isinstance(here, dict | list) and here and (not path or data.draw(st.integers(0, 9))):
        key = data.draw(st.sampled_from(sorted(here) if isinstance(here, dict) else range(len(here))))
        path.append((here, key))
        here = here[key]
    if path:
        holder, key = path[-1]
        junk: Callable[[], Any] = lambda: data.draw(  # noqa: E731
            st.sampled_from([None, True, -1, 0, 2**31, 2**63, 1e300, "", "x", "NaN", [], {}, [[]], {"x": 1}, [None]])
        )
        action = data.draw(st.sampled_from(["replace", "remove", "double"]))
        if action == "remove":
            del holder[key]
        elif action == "double" and isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[key] = junk()
    return value


@given(st.sampled_from(PLANS), st.data())
def test_a_plan_in_json_with_values_changed_is_a_plan_or_a_plan_error(path: Path, data: st.DataObject) -> None:
    message = plan_class().FromString(path.read_bytes())
    plan = json.loads(json_format.MessageToJson(message))
    for _ in range(data.draw(st.integers(1, 4))):
        plan = _change(plan, data)
    survives(PlanBytes(json=json.dumps(plan)))
