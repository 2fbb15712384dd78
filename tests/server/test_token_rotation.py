"""A client with a file of its token goes on when the token is changed, as `docs/operations.md` says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import tidegate
from tidegate.server.access.tokens import Tokens

from .running import manager, served
from .test_authenticating import tokens_file

OLD, NEW, OTHER = (f"alice-has-the-token-000{number}" for number in range(3))
LARGE = 1_000_000


class Rotated:
    """A server, the file of its tokens, and the file of a client's token."""

    def __init__(self, folder: Path) -> None:
        self.of_server, self.of_client = folder / "tokens", folder / "token"
        self.server_takes(OLD)
        self.client_has(OLD)

    def server_takes(self, *tokens: str) -> None:
        tokens_file(self.of_server.with_name("next"), *(f"alice {token}" for token in tokens)).replace(self.of_server)

    def client_has(self, token: str) -> None:
        self.of_client.write_text(token)

    def rotate(self) -> None:
        """The steps of the page: the server takes both, the client's file has the new one, the old one goes."""
        self.server_takes(OLD, NEW)
        self.client_has(NEW)
        self.server_takes(NEW)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rotated:
    monkeypatch.setattr("tidegate.server.access.tokens._LOOK_SECONDS", 0.0)
    monkeypatch.setattr("tidegate.server.endpoints.task_service.LONGEST_FEED", 0.0)
    return Rotated(tmp_path)


@pytest.fixture
def client(files: Rotated) -> Iterator[tidegate.Client]:
    with (
        manager(principals=True) as backend,
        served(backend, tokens=Tokens(files.of_server)) as address,
        tidegate.connect(address, token_file=files.of_client) as connected,
    ):
        yield connected


def test_calls_go_on_with_the_new_token_of_the_file(client: tidegate.Client, files: Rotated) -> None:
    task = client.create_task(b"plan")
    files.rotate()
    assert [listed.id for listed in client.tasks()] == [task.id]


def test_a_feed_goes_on_with_the_new_token_of_the_file(client: tidegate.Client, files: Rotated) -> None:
    task = client.create_task(b"plan")
    assert task.run_epoch({"a": pa.table({"x": [1]})}).rows == 1
    files.rotate()
    assert task.run_epoch({"a": pa.table({"x": [2, 3]})}).rows == 2


def test_large_results_still_come_over_flight(client: tidegate.Client, files: Rotated) -> None:
    rows = pa.table({"x": pa.array(range(LARGE), pa.int64())})
    task = client.create_task(b"plan")
    assert task.run_epoch({"a": rows}).table().num_rows == LARGE
    files.rotate()
    for _ in range(4):  # more than the attempts after which a client does without Flight
        assert task.run_epoch({"a": rows}).table().num_rows == LARGE
    assert task.service.large_results == "Flight"


def test_a_file_that_has_the_token_of_before_changes_nothing(client: tidegate.Client, files: Rotated) -> None:
    files.server_takes(NEW)
    with pytest.raises(tidegate.Unauthenticated) as refused:
        client.tasks()
    assert refused.value.reason == "TOKEN_UNKNOWN"


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("two words")], ids=["gone", "no token"])
def test_a_file_that_has_no_token_leaves_the_refusal_of_the_server(
    client: tidegate.Client, files: Rotated, spoil: object
) -> None:
    files.server_takes(NEW)
    spoil(files.of_client)  # type: ignore[operator]
    with pytest.raises(tidegate.Unauthenticated) as refused:
        client.tasks()
    assert refused.value.reason == "TOKEN_UNKNOWN"


def test_a_second_token_that_the_server_does_not_know_is_refused_once(client: tidegate.Client, files: Rotated) -> None:
    files.server_takes(NEW)
    files.client_has(OTHER)
    with pytest.raises(tidegate.Unauthenticated):
        client.tasks()
    files.client_has(NEW)
    assert client.tasks() == []
