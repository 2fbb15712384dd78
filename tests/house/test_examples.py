"""The examples run as they are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .modules import TOP


def shown(example: str, folder: Path) -> str:
    """What an example prints, run in an empty folder where it must leave nothing behind."""
    script = TOP / "examples" / f"{example}.py"
    done = subprocess.run([sys.executable, script], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, said(done.stderr)) == (0, [])
    assert list(folder.iterdir()) == []
    return done.stdout


def said(errors: str) -> list[str]:
    """The lines of the standard error but for those with which DuckDB's module may say, when the interpreter ends while
    its threads do, that objects of its own were not freed.
    """
    lines = errors.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("nanobind: leaked")), len(lines))
    ours = [line for line in lines[start:] if not line.startswith((" - ", "nanobind: ", "See https://nanobind."))]
    return lines[:start] + ours


def test_the_quick_start_shows_three_epochs_and_the_same_rows_twice(tmp_path: Path) -> None:
    text = shown("quickstart", tmp_path)
    assert [f"as epoch {number}." in text for number in (1, 2, 3)] == [True, True, True]
    assert text.splitlines()[-1].strip().startswith("Yes: SHA-256")


def test_a_loader_that_dies_goes_on_where_it_was(tmp_path: Path) -> None:
    text = shown("training_loader", tmp_path)
    assert "the cursor it noted: Cursor(epoch=2, row=" in text
    assert text.splitlines()[-1] == "The same rows in the same order? Yes."


def test_a_query_is_explained_and_answered(tmp_path: Path) -> None:
    assert shown("one_shot_query", tmp_path).splitlines()[-2:] == ["Cork       3   110", "Ghent      2    70"]


def test_trips_of_a_day_are_those_of_its_flights_alone(tmp_path: Path) -> None:
    lines = shown("transitive_closure", tmp_path).splitlines()
    assert lines[0] == "day 1: 3 flights, 9 trips"
    assert lines[10:] == ["day 2: 2 flights, 3 trips", "  Cork to Ghent", "  Cork to Porto", "  Ghent to Porto"]


def test_permissions_go_through_groups_of_groups(tmp_path: Path) -> None:
    assert shown("group_permissions", tmp_path).splitlines() == [
        "ada may read the proofs",
        "bert may not read the drafts",
        "carl may not read the handbook",
    ]


def test_levels_are_counted_down_from_the_head(tmp_path: Path) -> None:
    lines = shown("org_chart", tmp_path).splitlines()
    assert lines[lines.index("chart 2") :] == [
        "chart 2",
        "  Ada",
        "    Bo",
        "    Di",
        "      Cy",
        "      Ed",
        "        Fay",
    ]


def test_a_lower_cost_replaces_the_one_before_it(tmp_path: Path) -> None:
    assert shown("cheapest_path", tmp_path).splitlines() == ["Cork: 0", "Ghent: 5", "Porto: 2", "Turin: 9"]


def test_a_link_joins_two_components(tmp_path: Path) -> None:
    assert shown("connected_components", tmp_path).splitlines() == [
        "4 links: 11, 12, 13 and 14, 15, 16",
        "5 links: 11, 12, 13, 14, 15, 16",
    ]


def test_a_live_view_gives_only_what_has_changed(tmp_path: Path) -> None:
    lines = shown("top_customers", tmp_path).splitlines()
    assert lines[4:9] == ["day 2", "  +1 ann 25", "  -1 ann 30", "  -1 cid 10", "  +1 dot 45"]
    assert lines[-1] == "now: ann 25, bob 20, cid 10"


def test_every_example_has_a_test() -> None:
    scripts = {path.stem for path in (TOP / "examples").glob("*.py")}
    assert scripts == {
        "quickstart",
        "training_loader",
        "one_shot_query",
        "transitive_closure",
        "group_permissions",
        "org_chart",
        "cheapest_path",
        "connected_components",
        "top_customers",
    }
