"""Spark and a server that wants to know who calls: executors take the token from a file or their environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tidegate
import tidegate.spark
from tidegate.executor.service.plan_engine import PlanEngine
from tidegate.server.access.certificate import Certificate
from tidegate.server.access.tokens import Tokens
from tidegate.spark import feed, sweep

from ..server.certificates import Authority
from ..server.running import manager, served
from .conftest import handed_on, rows_of
from .test_staged import computed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALICE, BOB = "alice-has-this-token-0001", "bob-has-another-token-0002"


@dataclass(frozen=True)
class SecureServer:
    """A server over TLS that knows alice and bob, and the files that they show and check."""

    address: str
    tokens: dict[str, Path]
    authorities: Path

    def connect(self, who: str = "alice") -> tidegate.Client:
        return tidegate.connect(self.address, token_file=self.tokens[who], tls=self.authorities)

    def options(self, who: str = "alice") -> dict[str, str]:
        return {"server": self.address, "tokenFile": str(self.tokens[who]), "tls": str(self.authorities)}


@pytest.fixture(scope="module")
def secure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureServer]:
    folder = tmp_path_factory.mktemp("server")
    files = {}
    for who, token in (("alice", ALICE), ("bob", BOB)):
        files[who] = folder / who
        files[who].write_text(token)
    (folder / "tokens").write_text(f"alice {ALICE}\nbob {BOB}\n")
    (folder / "tokens").chmod(0o600)
    authority = Authority.new()
    (folder / "authority.pem").write_text(authority.pem)
    how = {
        "tokens": Tokens(folder / "tokens"),
        "certificate": Certificate(*authority.issue(folder, "127.0.0.1")),
    }
    engine = PlanEngine([str(tmp_path_factory.getbasetemp())], folder)
    with manager(engine, principals=True) as backend, served(backend, **how) as address:
        yield SecureServer(address, files, folder / "authority.pem")


def test_executors_push_with_the_clients_token_file_over_tls(spark: SparkSession, secure_server: SecureServer) -> None:
    with secure_server.connect() as client, client.create_task(handed_on()) as task:
        assert feed(computed(spark), task, "rows", how="pushed").rows == 100
        assert [row["k"] for row in rows_of(task)] == list(range(100))


def test_a_token_that_was_given_as_text_is_not_sent_to_executors(
    spark: SparkSession, secure_server: SecureServer
) -> None:
    with (
        tidegate.connect(secure_server.address, token=ALICE, tls=secure_server.authorities) as client,
        client.create_task(handed_on()) as task,
        pytest.raises(tidegate.Unauthenticated, match="does not send to other processes") as refused,
    ):
        feed(computed(spark), task, "rows", how="pushed")
    assert ALICE not in str(refused.value)


def test_the_data_source_reads_and_writes_with_a_token_file(spark: SparkSession, secure_server: SecureServer) -> None:
    tidegate.spark.register(spark)
    with secure_server.connect() as client, client.create_task(handed_on()) as task:
        writer = computed(spark).write.format("tidegate").mode("append").options(**secure_server.options())
        writer.option("task", task.id).option("source", "rows").save()
        frame = spark.read.format("tidegate").options(**secure_server.options()).option("task", task.id).load()
        assert sorted(row["k"] for row in frame.collect()) == list(range(100))
        shown = frame._jdf.queryExecution().toString()
        assert ALICE not in shown


def test_the_data_source_says_who_may_not(spark: SparkSession, secure_server: SecureServer) -> None:
    tidegate.spark.register(spark)
    with secure_server.connect() as client, client.create_task(handed_on()) as task:
        reader = spark.read.format("tidegate").option("task", task.id)
        with pytest.raises(Exception, match="there is no task"):
            reader.options(**secure_server.options("bob")).load()
        with pytest.raises(Exception, match="is not a token"):
            reader.options(**secure_server.options()).option("tokenFile", "/dev/null").load()


def test_what_one_principal_has_staged_is_not_swept_by_another(
    spark: SparkSession, secure_server: SecureServer, tmp_path: Path
) -> None:
    with (
        secure_server.connect("alice") as alice,
        secure_server.connect("bob") as bob,
        alice.create_task(handed_on()) as task,
    ):
        fed = feed(computed(spark), task, "rows", how="staged", staging=tmp_path)
        assert sweep(tmp_path, bob) == []
        assert len(rows_of(task)) == fed.rows
        task.acknowledge(tidegate.Cursor(2, 0))
        assert len(sweep(tmp_path, alice)) == 1
