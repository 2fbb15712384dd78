"""TLS: what a client is shown, and what it does not take."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import grpc
import pyarrow as pa
import pytest
from pyarrow import flight

import tidegate
from tidegate.server.access.certificate import Certificate
from tidegate.server.access.tokens import Tokens
from tidegate.server.probe import main as probe
from tidegate.transport import remote
from tidegate.transport.channel import Channel
from tidegate.transport.result_streams import FlightConnection

from .certificates import Authority
from .running import flight_address, manager, served

TOKEN = "alice-has-this-token-0001"


@pytest.fixture
def authority() -> Authority:
    return Authority.new()


@pytest.fixture
def authorities(authority: Authority, tmp_path: Path) -> Path:
    path = tmp_path / "authorities.pem"
    path.write_text(authority.pem)
    return path


@pytest.fixture
def address(authority: Authority, tmp_path: Path) -> Iterator[str]:
    (tmp_path / "tokens").write_text(f"alice {TOKEN}")
    (tmp_path / "tokens").chmod(0o600)
    certificate = Certificate(*authority.issue(tmp_path, "localhost", "127.0.0.1"))
    tokens = Tokens(tmp_path / "tokens")
    with manager(principals=True) as backend, served(backend, certificate=certificate, tokens=tokens) as listening:
        yield listening


def refusal_of(address: str, **how: object) -> tidegate.Unavailable:
    """What a call fails with, which is tried once, though calls try again for a day where that may help."""
    attempts: list[tidegate.TidegateError] = []

    class Counted(Channel):
        def failed(self, broken: grpc.RpcError) -> tidegate.TidegateError:
            assert not attempts, "a second attempt"
            attempts.append(super().failed(broken))
            return attempts[0]

    with (
        mock.patch.object(remote, "Channel", Counted),
        tidegate.connect(address, token=TOKEN, reconnect_seconds=86_400, plaintext_token=True, **how) as client,
        pytest.raises(tidegate.Unavailable) as unavailable,
    ):
        client.tasks()
    assert attempts == [unavailable.value]
    return unavailable.value


def test_a_task_runs_over_tls_for_who_has_a_token(address: str, authorities: Path) -> None:
    with (
        tidegate.connect(address, tls=authorities, token=TOKEN) as client,
        client.create_task(b"plan") as task,
    ):
        assert task.run_epoch({"a": pa.table({"x": [1, 2]})}).table()["x"].to_pylist() == [1, 2]


def test_a_large_result_comes_over_flight_and_tls(address: str, authorities: Path) -> None:
    rows = pa.table({"x": range(1_000_000)})
    with (
        tidegate.connect(address, tls=authorities, token=TOKEN) as client,
        client.create_task(b"plan") as task,
    ):
        authorities.unlink()  # what it had was read when the client was made
        assert task.run_epoch({"a": rows}).table() == rows
        assert task.service.large_results == "Flight"


@contextlib.contextmanager
def foreign(client: tidegate.Client, scheme: str, authorities: bytes | None) -> Iterator[flight.FlightClient]:
    with flight.connect(f"{scheme}://{flight_address(client)}", tls_root_certs=authorities) as connected:
        yield connected


def answered(client: flight.FlightClient) -> bool:
    """Whether Flight has said something; what it says to those without a token."""
    try:
        client.get_flight_info(flight.FlightDescriptor.for_path("t", "1"), flight.FlightCallOptions(timeout=5))
    except flight.FlightUnauthenticatedError:
        return True
    except (flight.FlightUnavailableError, flight.FlightTimedOutError):
        return False
    raise AssertionError("without a token")


def test_flight_is_there_over_tls_alone(address: str, authorities: Path) -> None:
    with tidegate.connect(address, tls=authorities, token=TOKEN) as client:
        with foreign(client, "grpc+tls", authorities.read_bytes()) as right:
            assert answered(right)
        with foreign(client, "grpc+tls", Authority.new().pem.encode()) as stranger:
            assert not answered(stranger)
        with foreign(client, "grpc+tcp", None) as plain:
            assert not answered(plain)


def test_a_socket_with_tls_has_no_flight_beside_it_and_says_so(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    certificate = Certificate(*authority.issue(tmp_path, "localhost"))
    with manager() as backend, served(backend, listen=f"unix:{tmp_path}/s", certificate=certificate):
        assert not (tmp_path / "s.flight").exists()
    assert "there is no Arrow Flight" in caplog.text
    assert "Arrow Flight has no TLS on a Unix socket" in caplog.text


def test_flight_shows_a_renewed_certificate_at_the_same_port_while_its_streams_go_on(
    address: str, authorities: Path, tmp_path: Path
) -> None:
    renewed = Authority.new()
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with (
        tidegate.connect(address, tls=authorities, token=TOKEN) as client,
        client.create_task(b"plan") as task,
        foreign(client, "grpc+tls", authorities.read_bytes()) as before,
    ):
        stream = before.do_get(flight.Ticket(f'{{"task": "{task.id}", "epoch": 1}}'), options)
        renewed.issue(tmp_path, "localhost", "127.0.0.1")
        deadline = time.monotonic() + 30
        shown = False
        while not shown:
            with foreign(client, "grpc+tls", renewed.pem.encode()) as after:
                shown = answered(after)
            assert time.monotonic() < deadline
        task.run_epoch({"a": pa.table({"x": [1]})})
        assert stream.read_all()["x"].to_pylist() == [1]


def test_tls_alone_lets_nobody_in(address: str, authorities: Path) -> None:
    with tidegate.connect(address, tls=authorities) as client, pytest.raises(tidegate.Unauthenticated):
        client.tasks()


def test_a_server_of_another_authority_is_told_nothing(address: str, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    other.write_text(Authority.new().pem)
    for tls, known in ((other, f"in {other}"), (True, "that gRPC knows")):
        refused = refusal_of(address, tls=tls)
        assert f"none of the authorities {known} has signed the certificate; name the file" in str(refused)
        assert refused.reason == "CERTIFICATE_UNTRUSTED"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])  # one has an address, the other perhaps several
def test_a_server_of_another_name_is_told_nothing(
    authority: Authority, authorities: Path, tmp_path: Path, host: str
) -> None:
    certificate = Certificate(*authority.issue(tmp_path, "elsewhere.example"))
    with manager() as backend, served(backend, certificate=certificate) as address:
        refused = refusal_of(address.replace("127.0.0.1", host), tls=authorities)
    assert f"its certificate must be for {host}, not for elsewhere.example: connect by a name of the certificate" in (
        str(refused)
    )
    assert refused.reason == "CERTIFICATE_NAME"


@pytest.mark.parametrize("way", ["gRPC", "Flight"])
@pytest.mark.parametrize(
    ("issued", "reason", "said"),
    [
        ({"valid": ("200101000000Z", "210101000000Z")}, "CERTIFICATE_EXPIRED", "certificate has expired): renew the"),
        (
            {"valid": ("480101000000Z", "491231235959Z")},
            "CERTIFICATE_EXPIRED",
            "valid): renew the certificate, or",
        ),
        ({"by": "another"}, "CERTIFICATE_UNTRUSTED", "name the file of its certificate authority (tls=FILE"),
        ({"by": "another", "self_signed": True}, "CERTIFICATE_UNTRUSTED", "(self-signed certificate): none of"),
        (
            {"names": ["elsewhere.example"]},
            "CERTIFICATE_NAME",
            "not for elsewhere.example: connect by a name",
        ),
        ({"tls": False}, "NO_TLS", "leave tls, --tls and --tls-ca out"),
    ],
    ids=["expired", "not valid yet", "of an unknown authority", "self-signed", "of another name", "none"],
)
def test_a_certificate_that_cannot_be_used_is_told_at_once_with_what_to_do(
    authority: Authority,
    address: str,
    authorities: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    way: str,
    issued: dict[str, object],
    reason: str,
    said: str,
) -> None:
    how = dict(issued)
    names = how.pop("names", ["localhost", "127.0.0.1"])
    by = Authority.new() if how.pop("by", None) else authority
    shown = Certificate(*by.issue(tmp_path_factory.mktemp("strange"), *names, **how)) if how.pop("tls", True) else None
    with manager() as other, served(other, certificate=shown) as strange:
        if way == "gRPC":
            refused = refusal_of(strange, tls=authorities)
            assert (refused.reason, said in str(refused)) == (reason, True)
            return
        rows = pa.table({"x": range(1_000_000)})
        with (
            tidegate.connect(address, tls=authorities, token=TOKEN) as client,
            client.create_task(b"plan") as task,
        ):
            monkeypatch.setattr(FlightConnection, "_address", lambda _: strange)
            assert task.run_epoch({"a": rows}).table() == rows
            assert said in task.service.large_results
        assert said in caplog.text


def test_flight_with_tls_at_a_server_without_is_told_at_once(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"x": range(1_000_000)})
    certificate = Certificate(*authority.issue(tmp_path, "localhost", "127.0.0.1"))
    with (
        manager() as backend,
        manager() as other,
        served(backend) as address,
        served(other, certificate=certificate) as strange,
        tidegate.connect(address) as client,
        client.create_task(b"plan") as task,
    ):
        monkeypatch.setattr(FlightConnection, "_address", lambda _: strange)
        assert task.run_epoch({"a": rows}).table() == rows
        assert "the server takes only connections with TLS: give tls=True" in task.service.large_results


def test_a_file_without_certificates_vouches_for_nobody(address: str, tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    assert refusal_of(address, tls=tmp_path / "empty.pem").reason == "NO_AUTHORITIES"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_without_tls_a_client_is_told_to_use_it(address: str, host: str) -> None:
    refused = refusal_of(address.replace("127.0.0.1", host))
    assert "the server takes only connections with TLS: give tls=True" in str(refused)
    assert refused.reason == "TLS_WANTED"


def test_a_server_without_tls_is_not_reached_with_it(authorities: Path) -> None:
    with manager() as backend, served(backend) as address:
        refused = refusal_of(address, tls=authorities)
    assert "the server takes only connections without TLS" in str(refused)
    assert refused.reason == "NO_TLS"


def test_a_server_that_is_not_there_is_waited_for_over_tls_too(authority: Authority, authorities: Path) -> None:
    with (
        tidegate.connect("127.0.0.1:1", tls=authorities, reconnect_seconds=0.3) as client,
        pytest.raises(
            tidegate.Unavailable, match=r"`tidegate serve --listen 127\.0\.0\.1:1` starts one"
        ) as unavailable,
    ):
        client.tasks()
    assert unavailable.value.reason == "UNAVAILABLE"


def test_flight_behind_another_certificate_is_told_why_and_done_without(
    address: str, authorities: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a proxy for one of the two ports may make of them."""
    rows = pa.table({"x": range(1_000_000)})
    elsewhere = Authority.new()
    with tempfile.TemporaryDirectory() as folder, manager() as other:
        certificate = Certificate(*elsewhere.issue(Path(folder), "localhost", "127.0.0.1"))
        with (
            served(other, certificate=certificate) as strange,
            tidegate.connect(address, tls=authorities, token=TOKEN) as client,
            client.create_task(b"plan") as task,
        ):
            monkeypatch.setattr(FlightConnection, "_address", lambda _: strange)
            assert task.run_epoch({"a": rows}).table() == rows
            assert task.service.large_results.startswith("gRPC: ")
    assert "its certificate is not trusted" in caplog.text


def test_a_renewed_certificate_is_shown_to_the_next_client(address: str, authorities: Path, tmp_path: Path) -> None:
    renewed = Authority.new()
    with tidegate.connect(address, tls=authorities, token=TOKEN) as client:
        client.tasks()
        renewed.issue(tmp_path, "localhost", "127.0.0.1")
        client.tasks()
    authorities.write_text(renewed.pem)
    with tidegate.connect(address, tls=authorities, token=TOKEN) as client:
        client.tasks()


def test_a_renewal_that_went_wrong_changes_nothing_but_the_log(
    address: str, authorities: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "server.pem").write_text("half of a certi")
    with tidegate.connect(address, tls=authorities, token=TOKEN) as client:
        client.tasks()
    assert "the server keeps the previous certificate: " in caplog.text


def test_a_key_of_another_certificate_is_refused_when_the_server_starts(authority: Authority, tmp_path: Path) -> None:
    chain, _ = authority.issue(tmp_path, "localhost")
    other = tmp_path / "other"
    other.mkdir()
    _, key = authority.issue(other, "localhost")
    with pytest.raises(tidegate.InvalidRequest, match="KEY_VALUES_MISMATCH"):
        Certificate(chain, key).credentials()


@pytest.mark.parametrize("missing", ["server.pem", "server.key"])
def test_a_file_that_is_not_there_is_named(authority: Authority, tmp_path: Path, missing: str) -> None:
    certificate = Certificate(*authority.issue(tmp_path, "localhost"))
    (tmp_path / missing).unlink()
    with pytest.raises(tidegate.InvalidRequest, match=f"{missing}.*No such file"):
        certificate.credentials()


def test_the_probe_asks_over_tls(address: str, authorities: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe([address, "--tls-ca", str(authorities)]) == 0
    assert capsys.readouterr().err == ""


def test_the_probe_finds_out_by_itself_that_a_server_of_its_machine_has_tls(
    authority: Authority, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = Certificate(*authority.issue(tmp_path, "tidegate.example"))
    with manager() as backend, served(backend, certificate=certificate) as address:
        assert probe([address]) == 0
    assert capsys.readouterr().err == ""
    assert probe([address]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_probe_says_what_is_wrong_with_tls(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.pem").write_text(Authority.new().pem)
    assert probe([address, "--tls-ca", str(tmp_path / "other.pem")]) == 1
    assert "its certificate is not trusted" in capsys.readouterr().err
