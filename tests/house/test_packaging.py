"""The distribution: what is in it, and that what is installed from it works and is typed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import tidegate

from .modules import FOLDERS, SETTINGS, TOP, modules

LEFT_OUT = (".*", "build", "dist", "*.egg-info", "__pycache__")


@dataclass(frozen=True)
class Distribution:
    sdist: Path
    wheel: Path
    python: Path


def run(*command: str | Path, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MYPYPATH")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Distribution:
    """The sdist, the wheel made from it, and a fresh environment with that wheel in it.

    The environment sees the dependencies of this one through a path file, so nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("distribution")
    tree, built = folder / "tree", folder / "made"
    shutil.copytree(TOP, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", built, tree, cwd=folder)
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", packages, wheel, cwd=folder)
    (packages / "dependencies.pth").write_text("\n".join(dependency_folders()) + "\n")
    return Distribution(sdist, wheel, python)


def dependency_folders() -> list[str]:
    """Where this environment's packages are. Named in a path file, their own path files are not followed, so that
    the editable Tidegate among them stays out of sight.
    """
    return [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]


def test_every_folder_with_code_is_a_listed_package() -> None:
    listed = set(SETTINGS["tool"]["setuptools"]["packages"])
    assert {module.package for module in modules().values()} == listed


def test_every_folder_with_code_says_that_it_is_a_package() -> None:
    folders = {module.path.parent for module in modules().values()}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_the_wheel_holds_every_module_and_data_file_and_nothing_else(distribution: Distribution) -> None:
    expected = {"tidegate/py.typed"}
    for package, folder in FOLDERS.items():
        for path in (TOP / folder).rglob("*"):
            if path.suffix in (".py", ".pyi", ".proto", ".yaml"):
                expected.add(f"{package.replace('.', '/')}/{path.relative_to(TOP / folder).as_posix()}")
    with zipfile.ZipFile(distribution.wheel) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == expected


def test_the_sdist_has_what_a_build_needs_and_no_tests(distribution: Distribution) -> None:
    with tarfile.open(distribution.sdist) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "clients/py.typed", "proto/tidegate/v1/tasks.proto"} <= held
    assert not any(name.startswith(("tests/", "benchmarks/", "examples/")) for name in held)


def test_every_module_of_the_installed_wheel_imports(distribution: Distribution, tmp_path: Path) -> None:
    names = sorted(name for name in modules() if not name.endswith(".__main__"))
    script = (
        f"import importlib, tidegate\nfor name in {names!r}: importlib.import_module(name)\nprint(tidegate.__file__)"
    )
    shown = run(distribution.python, "-W", "error", "-c", script, cwd=tmp_path)
    assert Path(shown.strip()).is_relative_to(distribution.python.parent.parent)


def test_the_installed_package_leaves_the_substrait_namespace_alone(distribution: Distribution) -> None:
    with zipfile.ZipFile(distribution.wheel) as wheel:
        assert {name.partition("/")[0].partition("-")[0] for name in wheel.namelist()} == {"tidegate"}


USE = """\
import pyarrow as pa
import tidegate
from tidegate import windows
from tidegate.proto.values import START, Cursor
from tidegate.training import Loader
from tidegate.training.torch import Dataset
def right(client: tidegate.Client, task: tidegate.Task, table: pa.Table) -> None:
    client.create_task(b"", channels=2, determinism="strict", mode="continuous", missing_columns="null")
    task.add_split("sales", tidegate.FileSplit("sales", format="parquet"), missing_columns="null")
    Loader(client, b"", {"samples": "samples"}, batch_size=1, channels=2, on_error="skip")
    windows.interval_join(b"", b"", "at", how="left_semi")
    graph = tidegate.TaskGraph()
    rows = graph.join("both", graph.read_arrow(table), graph.read_arrow(table), "key", how="semi")
    graph.write(graph.aggregate("totals", rows, "key", {"n": "count", "v": ("sum", "value")}), "to", format="csv")
def wrong(client: tidegate.Client, task: tidegate.Task, graph: tidegate.TaskGraph, rows: tidegate.graph.Stream) -> None:
    client.create_task(b"", chanels=2)  # wrong
    client.create_task(b"", determinism="strikt")  # wrong
    client.create_task(b"", channels="2")  # wrong
    client.query(b"", {}, write_format="xlsx")  # wrong
    task.add_split("sales", "sales.parquet", missing_columns="nul")  # wrong
    tidegate.FileSplit("sales", format="parket")  # wrong
    tidegate.upload("sales", format="parket")  # wrong
    graph.join("both", rows, rows, "key", how="sideways")  # wrong
    graph.aggregate("totals", rows, "key", {"v": ("median", "value")})  # wrong
    windows.interval_join(b"", b"", "at", how="sideways")  # wrong
    windows.as_of_join(b"", b"", "at", how="right")  # wrong
    graph.write(rows, "to", format="orc")  # wrong
    graph.write(rows, "to", mode="overwrite")  # wrong
    Loader(client, b"", {}, batch_size=1, chanels=2)  # wrong
    Loader(client, b"", {}, batch_size=1, determinism="relaxed")  # wrong
    Dataset(client, b"", {}, batch_size=1, as_="tf")  # wrong
reveal_type(Cursor(START.epoch + 1).row)
"""
WRONG = [number for number, line in enumerate(USE.splitlines(), 1) if line.endswith("# wrong")]


def test_mypy_sees_the_types_of_the_installed_package(distribution: Distribution, tmp_path: Path) -> None:
    (tmp_path / "use.py").write_text(USE)
    mypy = [sys.executable, "-m", "mypy", "--config-file", TOP / "pyproject.toml", "--cache-dir", tmp_path / "cache"]
    done = subprocess.run(
        [*mypy, "--python-executable", distribution.python, "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line.split(":")[1] for line in done.stdout.splitlines() if ": error:" in line]
    assert [int(line) for line in errors] == WRONG, done.stdout
    assert 'Revealed type is "int"' in done.stdout.replace("builtins.", "")


def test_pyright_sees_the_types_of_the_installed_package(distribution: Distribution, tmp_path: Path) -> None:
    pytest.importorskip("basedpyright", reason="needs the extra [pyright]")
    (tmp_path / "use.py").write_text(USE)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--pythonpath", distribution.python, "--outputjson", "use.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    messages = json.loads(done.stdout)["generalDiagnostics"]
    errors = [message["range"]["start"]["line"] + 1 for message in messages if message["severity"] == "error"]
    assert errors == WRONG, done.stdout
    assert [message["message"] for message in messages if message["severity"] == "information"] == [
        'Type of "Cursor(START.epoch + 1).row" is "int"'
    ]


def test_the_constraints_are_within_the_ranges_of_the_project() -> None:
    versions = constraints()
    wanted = [Requirement(text) for text in requirements()]
    assert [
        str(requirement)
        for requirement in wanted
        if versions.get(canonicalize_name(requirement.name)) not in requirement.specifier
    ] == []


def test_the_constraints_name_everything_that_is_installed_with_the_project() -> None:
    versions, pending, seen = constraints(), [Requirement(text) for text in requirements()], set()
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # of an extra that is not installed here
        if (name, frozenset(requirement.extras)) not in seen:
            seen.add((name, frozenset(requirement.extras)))
            for need in map(Requirement, needs):
                wanted = [{"extra": extra} for extra in ("", *requirement.extras)]
                if need.marker is None or any(map(need.marker.evaluate, wanted)):
                    pending.append(need)
    assert {name for name, _ in seen} - versions.keys() == set()


def constraints() -> dict[str, str]:
    lines = (TOP / "constraints.txt").read_text().splitlines()
    pinned = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pinned}


def requirements() -> list[str]:
    """Of the project and of all its extras, except those on the project itself."""
    project = SETTINGS["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    return [text for text in texts if not text.startswith("tidegate")]


def test_an_editable_install_imports_from_the_tree(tmp_path: Path) -> None:
    shown = run(sys.executable, "-c", "import tidegate.planner as p; print(p.__file__)", cwd=tmp_path)
    assert Path(shown.strip()) == TOP / "planner" / "__init__.py"


def test_the_changelog_begins_with_what_is_not_released_and_has_its_releases_newest_first() -> None:
    first, *headings = re.findall(r"^## (.*)$", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)
    releases = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}", heading) for heading in headings]
    assert first == "[Unreleased]"
    assert None not in releases, f"write '## [X.Y.Z] - YYYY-MM-DD': {headings}"
    versions = [Version(release[1]) for release in releases if release is not None]
    assert versions == sorted(set(versions), reverse=True)
    assert versions[0] == Version(SETTINGS["project"]["version"])


def test_the_version_of_the_project_is_that_of_the_package_and_of_the_page_on_compatibility() -> None:
    version = SETTINGS["project"]["version"]
    assert tidegate.__version__ == version
    assert f"It describes version {version}." in (TOP / "docs" / "compatibility.md").read_text()
