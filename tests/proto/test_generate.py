"""The generated code belongs to the .proto files beside it."""

import pytest

pytest.importorskip("grpc_tools", reason="needs the extra [proto]")

from tidegate.proto import generate


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return generate.generate()


def test_generated_code_is_not_stale(generated: dict[str, str]) -> None:
    folder = generate.HERE / generate.PACKAGE
    committed = {file.name: file.read_text(encoding="utf-8") for file in folder.glob("*_pb2*.py*")}
    assert committed == generated, "run: python -m tidegate.proto.generate"


def test_generating_twice_gives_the_same_bytes(generated: dict[str, str]) -> None:
    assert generate.generate() == generated


def test_generated_modules_import_each_other_relatively(generated: dict[str, str]) -> None:
    assert not [name for name, text in generated.items() if "from tidegate" in text]
