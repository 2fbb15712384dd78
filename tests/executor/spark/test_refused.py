"""Tasks that cannot run on Spark: the service refuses them when a client asks for one."""

from __future__ import annotations

import pytest

import tidegate

PLAN = b"any"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"mode": "continuous"}, "NOT_ON_SPARK"),
        ({"determinism": "relaxed"}, "NOT_ON_SPARK"),
    ],
)
def test_what_has_no_meaning_on_spark_is_refused(options: dict[str, str], reason: str) -> None:
    with tidegate.local() as client, pytest.raises(tidegate.InvalidRequest, match='executor="spark"') as refused:
        client.create_task(PLAN, executor="spark", spark="local[1]", **options)
    assert refused.value.reason == reason


def test_a_master_is_for_tasks_that_run_there() -> None:
    with tidegate.local() as client, pytest.raises(tidegate.InvalidRequest, match='executor="spark"'):
        client.create_task(PLAN, spark="local[1]")


def test_a_client_does_not_choose_a_server_s_spark() -> None:
    with tidegate.connect("127.0.0.1:1") as client, pytest.raises(tidegate.InvalidRequest) as refused:
        client.create_task(PLAN, executor="spark", spark="local[1]")
    assert refused.value.reason == "SPARK_OF_SERVER"
