"""Class of bug: something that Substrait defines and nobody has thought of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor

from tidegate.planner.decode.coverage import ONEOFS, Oneof, page
from tidegate.planner.decode.encoding.message_classes import RECURSIVE, pool
from tidegate.planner.decode.encoding.restored import RESTORED


@pytest.mark.parametrize("oneof", ONEOFS, ids=lambda oneof: oneof.title)
def test_everything_defined_is_either_handled_or_refused_by_name(oneof: Oneof) -> None:
    assert sorted([*oneof.handled, *oneof.refused]) == sorted(oneof.defined)


@pytest.mark.parametrize("oneof", ONEOFS, ids=lambda oneof: oneof.title)
def test_every_refusal_gives_a_reason(oneof: Oneof) -> None:
    assert all(len(reason) > 20 for reason in oneof.refused.values())


def test_every_official_function_has_its_line() -> None:
    lines = page().splitlines()
    assert "| `add` | scalar | yes |" in "\n".join(lines)
    assert any(line.startswith("| `point` | scalar | refused | geometry") for line in lines)


def test_the_page_in_the_docs_is_what_the_code_says(project: Path) -> None:
    assert (project / "docs" / "coverage.md").read_text(encoding="utf-8") == page(), (
        "stale: run python -m tidegate.planner.decode.coverage"
    )


def messages(descriptor: Descriptor) -> Iterator[Descriptor]:
    return (field.message_type for field in descriptor.fields if field.message_type is not None)


@pytest.mark.parametrize("root", ["substrait.Plan", *sorted(RECURSIVE)])
def test_no_message_of_the_pool_can_contain_itself(root: str) -> None:
    def depth(descriptor: Descriptor, above: tuple[str, ...]) -> int:
        assert descriptor.full_name not in above, above
        return 1 + max((depth(message, (*above, descriptor.full_name)) for message in messages(descriptor)), default=0)

    assert depth(pool().descriptor(root), ()) < 20


@pytest.mark.parametrize("field", RESTORED, ids=lambda field: f"{field.message}.{field.name}")
def test_every_old_field_is_in_the_pool_at_its_number(field: object) -> None:
    name, number, message = field.name, field.number, field.message  # type: ignore[attr-defined]
    assert pool().descriptor(message).fields_by_name[name].number == number
