"""CPUs and memory that a process may use: those of the machine, and the limits of its control groups."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.operators.core import machine
from tidegate.operators.core.machine import usable_cpus, usable_memory


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 64 CPUs and 8,000 bytes."""
    monkeypatch.setattr(machine, "_runnable", lambda: 64)
    monkeypatch.setattr(machine, "_memory", lambda: 8_000)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("quota", "usable"),
    [("400000 100000", 4), ("150000 100000", 2), ("1000 100000", 1), ("9000000 100000", 64), ("max 100000", 64)],
)
def test_a_quota_of_version_2_bounds_the_cpus(tmp_path: Path, quota: str, usable: int) -> None:
    files = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": quota + "\n"}
    assert usable_cpus(write(tmp_path, files)) == usable


def test_the_quota_of_an_outer_group_bounds_the_cpus_too(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pods/one/container\n",
        "sys/fs/cgroup/pods/one/container/cpu.max": "max 100000\n",
        "sys/fs/cgroup/pods/one/cpu.max": "300000 100000\n",
        "sys/fs/cgroup/pods/cpu.max": "800000 100000\n",
    }
    assert usable_cpus(write(tmp_path, files)) == 3


@pytest.mark.parametrize(("quota", "usable"), [("200000", 2), ("-1", 64)])
@pytest.mark.parametrize("folder", ["", "docker/5f0c/"], ids=["own view", "view of the machine"])
def test_a_quota_of_version_1_bounds_the_cpus(tmp_path: Path, quota: str, usable: int, folder: str) -> None:
    files = {
        "proc/self/cgroup": "5:memory:/docker/5f0c\n4:cpu,cpuacct:/docker/5f0c\n0::/\n",
        f"sys/fs/cgroup/cpu/{folder}cpu.cfs_quota_us": quota + "\n",
        f"sys/fs/cgroup/cpu/{folder}cpu.cfs_period_us": "100000\n",
    }
    assert usable_cpus(write(tmp_path, files)) == usable


def test_without_control_groups_all_cpus_count(tmp_path: Path) -> None:
    assert usable_cpus(tmp_path) == 64


@pytest.mark.parametrize(("limit", "usable"), [("6000", 6_000), ("9000", 8_000), ("max", 8_000)])
def test_a_limit_of_version_2_bounds_the_memory(tmp_path: Path, limit: str, usable: int) -> None:
    files = {"proc/self/cgroup": "0::/pods/one\n", "sys/fs/cgroup/pods/one/memory.max": "7000\n"}
    outer = {"sys/fs/cgroup/pods/memory.max": limit + "\n"}
    assert usable_memory(write(tmp_path, files)) == 7_000
    assert usable_memory(write(tmp_path, outer)) == min(7_000, usable)


@pytest.mark.parametrize(("limit", "usable"), [("6000", 6_000), ("9223372036854771712", 8_000)])
def test_a_limit_of_version_1_bounds_the_memory(tmp_path: Path, limit: str, usable: int) -> None:
    files = {"proc/self/cgroup": "5:memory:/docker/5f0c\n4:cpu,cpuacct:/docker/5f0c\n0::/\n"}
    files["sys/fs/cgroup/memory/docker/5f0c/memory.limit_in_bytes"] = limit + "\n"
    assert usable_memory(write(tmp_path, files)) == usable


def test_without_control_groups_all_memory_counts(tmp_path: Path) -> None:
    assert usable_memory(tmp_path) == 8_000


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="only Linux binds processes to CPUs")
def test_a_process_bound_to_one_cpu_gives_a_relaxed_task_one_thread() -> None:
    program = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tidegate.proto.values import Determinism, TaskOptions
from tidegate.executor.plans.dataflow import instance_settings
from tidegate.operators.core.machine import usable_cpus, usable_memory
print(usable_cpus(), instance_settings(TaskOptions(determinism=Determinism.RELAXED), ()).threads)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]
