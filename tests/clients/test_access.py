"""The source of a client's token, where the token goes, and where it never goes."""

from __future__ import annotations

import contextlib
import pickle
from pathlib import Path

import pytest

import tidegate
from tidegate.proto.address import is_loopback
from tidegate.transport.access import access
from tidegate.transport.remote import RemoteService

HERE, THERE = "127.0.0.1:1", "far.example:1"
GIVEN, FILED, SET, NAMED = (f"the-token-that-was-{how}" for how in ("given", "filed", "set", "named"))


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TIDEGATE_TOKEN", "TIDEGATE_TOKEN_FILE", "TIDEGATE_TLS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{FILED}\n")
    return path


def sent(token: str) -> tuple[tuple[str, str]]:
    return (("authorization", f"Bearer {token}"),)


def test_without_a_token_nothing_is_said() -> None:
    assert access(THERE).metadata() is None


def test_what_is_nearer_counts(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named").write_text(NAMED)
    monkeypatch.setenv("TIDEGATE_TOKEN_FILE", str(tmp_path / "named"))
    assert access(HERE).metadata() == sent(NAMED)
    monkeypatch.setenv("TIDEGATE_TOKEN", SET)
    assert access(HERE).metadata() == sent(SET)
    assert access(HERE, token_file=file).metadata() == sent(FILED)
    assert access(HERE, token=GIVEN).metadata() == sent(GIVEN)


def test_a_token_and_a_file_are_one_too_many(file: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match="give only one of the two"):
        tidegate.connect(HERE, token=GIVEN, token_file=file)


@pytest.mark.parametrize("text", ["", "two words", f"{GIVEN}\nsecond line", "ümlaut", "alice sha256:00"])
def test_what_is_no_token_is_not_shown(text: str, file: Path) -> None:
    file.write_text(text)
    with pytest.raises(tidegate.InvalidRequest, match="is not a token") as refused:
        tidegate.connect(HERE, token_file=file)
    assert refused.value.reason == "BAD_TOKEN"
    assert not text or text not in str(refused.value)
    with pytest.raises(tidegate.InvalidRequest, match="the token given to the client is not a token"):
        tidegate.connect(HERE, token=text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"the token cannot be read: .*/nowhere: No such file"):
        tidegate.connect(HERE, token_file=tmp_path / "nowhere")


def test_a_token_goes_to_another_machine_over_tls_or_when_told_to() -> None:
    with pytest.raises(tidegate.InvalidRequest, match="everybody on the way can read") as refused:
        tidegate.connect(THERE, token=GIVEN)
    assert refused.value.reason == "PLAINTEXT_TOKEN"
    assert access(THERE, token=GIVEN, tls=True).metadata() == sent(GIVEN)
    assert access(THERE, token=GIVEN, plaintext_token=True).metadata() == sent(GIVEN)


def test_neither_does_one_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_TOKEN", SET)
    with pytest.raises(tidegate.InvalidRequest, match="everybody on the way can read"):
        tidegate.connect(THERE)


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.0.0.1:1", True),
        ("127.1.2.3:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("unix:/run/tidegate.sock", True),
        ("0.0.0.0:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example:1", False),
        ("127.0.0.1.example:1", False),
    ],
)
def test_this_machine_is_told_from_others(address: str, here: bool) -> None:
    assert is_loopback(address) is here


def test_nothing_that_is_shown_or_shipped_has_a_token_in_it(file: Path) -> None:
    inline, filed = access(HERE, token=GIVEN), access(HERE, token_file=file)
    assert GIVEN not in repr(inline)
    assert GIVEN.encode() not in pickle.dumps(inline)
    assert FILED.encode() not in pickle.dumps(filed)


def test_where_it_is_unpacked_the_token_is_taken_from_what_is_there(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inline, filed = (
        pickle.loads(pickle.dumps(access_)) for access_ in (access(HERE, token=GIVEN), access(HERE, token_file=file))
    )
    assert filed.metadata() == sent(FILED)
    again = pickle.loads(pickle.dumps(inline))
    for access_ in (inline, again):
        with pytest.raises(tidegate.Unauthenticated, match="given to the client as text") as refused:
            access_.metadata()
        assert refused.value.reason == "TOKEN_MISSING"
    monkeypatch.setenv("TIDEGATE_TOKEN", SET)
    assert again.metadata() == sent(SET)


def test_another_process_connects_as_the_client_does(file: Path) -> None:
    with tidegate.connect(HERE, token_file=file, tls=file, flight=False, reconnect_seconds=0.0) as client:
        there = pickle.loads(pickle.dumps(client.access))
        assert there == client.access
    with contextlib.closing(RemoteService(there)) as service:
        assert service.large_results == "gRPC: the client asked for gRPC"
        with pytest.raises(tidegate.Unavailable):
            service.capabilities()


@pytest.mark.parametrize(
    ("said", "tls", "authorities"),
    [("", False, None), ("false", False, None), ("TRUE", True, None), ("/etc/ca.pem", True, "/etc/ca.pem")],
)
def test_the_environment_says_whether_tls_where_nobody_else_does(
    said: str, tls: bool, authorities: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_TLS", said)
    from_environment = access(THERE)
    assert (from_environment.tls, from_environment.authorities) == (tls, authorities)
    assert not access(THERE, tls=False).tls
    assert access(THERE, tls="other.pem").authorities == str(Path("other.pem").absolute())


def test_authorities_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(tidegate.InvalidRequest, match=r"the authorities' certificates cannot be read: .*nowhere"):
        tidegate.connect(THERE, tls=tmp_path / "nowhere")
