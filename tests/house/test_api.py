"""Public names have examples that run, and the page on them is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from development import api_page
from development.public_names import public_names

from . import api_examples


def test_every_public_name_has_an_example() -> None:
    assert api_examples.without_examples() == []


def test_every_public_member_of_a_class_has_a_docstring() -> None:
    assert [
        f"{name.path}.{member.name}" for name in public_names() for member in name.members if not member.docstring
    ] == []


@pytest.mark.parametrize("path", [path for path in api_examples.examples() if not api_examples.of_spark(path)])
def test_the_example_of_a_name_runs_and_prints_what_it_shows(path: str, tmp_path: Path) -> None:
    if path.startswith("tidegate.training.torch."):
        pytest.importorskip("torch", reason="needs PyTorch, which is no dependency")
    api_examples.run(path, tmp_path)


def test_the_page_is_not_stale() -> None:
    pytest.importorskip("grpc_tools", reason="needs the extra [proto]")
    assert api_page.PAGE.read_text(encoding="utf-8") == api_page.page(), "run: make api"
