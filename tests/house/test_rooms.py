"""Every folder is a room: it says what may be done there, it is small, and imports point one way between rooms."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Final

import pytest

from .modules import TOP, Module, modules, parsed

OWN: Final = {name: module for name, module in modules().items() if not name.startswith("tidegate.proto.tidegate")}
MOST_FILES: Final = 17
FLAT: Final = ""
"""The files of a package that are in no room of it."""

ROOMS: Final = {
    "proto": (FLAT, "arrow", "encoding"),
    "operators": (
        "core",
        "arrays",
        "kernels",
        "sources",
        "python_functions",
        "duckdb",
        "indexes",
        "slices",
        "writing",
        "merging",
        "changes",
        "user",
        FLAT,
        "testing",
    ),
    "planner": (
        "ir",
        "analysis",
        "functions",
        "sql",
        "decode",
        "rewrite",
        "choose",
        "distribution",
        "ordering",
        "changes",
        "physical",
        "cut",
        "explain",
        "graph",
        FLAT,
    ),
    "executor": (
        "runtime",
        "api",
        "ledger",
        "changes",
        "pipelines",
        "exchange",
        "plans",
        "checkpoints",
        "datasets",
        "journal",
        "tasks",
        "graph",
        "spark",
        "service",
    ),
    "server": ("calls", "access", "setup", "endpoints", FLAT, "cli"),
    "clients": ("values", "transport", FLAT, "graph", "spark", "windows", "training"),
}
"""The rooms of each package. A room imports from those before it."""

CLIENT_VALUES: Final = {"numbers", "splits", "task_options"}
"""Modules of the client that stay flat because users import them, and that what carries calls needs too."""


KIND = "a kind of relation has a file in each stage that knows it"
FAMILY = "a family of relations has a file in each pass over plans"
PUBLIC = "users import the one; the other is what stands behind it"
TWICE: Final = {
    **dict.fromkeys(("aggregate", "cross", "declared_order", "exchange", "expand", "fetch", "filter"), KIND),
    **dict.fromkeys(("index_lookup_join", "join", "lateral_join", "project", "select", "set", "sort"), KIND),
    **dict.fromkeys(("pack_lists", "unnest", "values", "window", "write"), KIND),
    **dict.fromkeys(("aggregates", "joins", "orders", "sets", "windows"), FAMILY),
    **dict.fromkeys(("epoch", "iteration", "relations", "task"), PUBLIC),
}
"""Names that more than one module has, and why."""

TABLES: Final = {
    "clients/spark/supplies": "clients/spark/feed_frames.py",
    "operators": "executor/pipelines/build_operators.py",
    "operators/changes": "executor/changes/operator_factory.py",
    "operators/changes/event_time": "executor/changes/operator_factory.py",
    "operators/user": "executor/pipelines/build_operators.py",
    "planner/decode/relations/event_time": "planner/decode/relations/extension.py",
    "planner/decode/relations/joins": "planner/decode/relations/__init__.py",
    "planner/decode/relations/loops": "planner/decode/relations/extension.py",
    "planner/sql/relations": "planner/sql/select_statement.py",
    "server/endpoints": "server/serving.py",
}
"""Collections whose table is outside: the module that names their files, one for each kind. It is the way in."""

FEW_DOORS: Final = 3
MOST_DOORS: Final = 6
DOORS: Final = {
    "clients": "__init__ progress",
    "clients/graph": "",
    "clients/spark": "",
    "clients/spark/data_source": "reading",
    "clients/spark/supplies": "",
    "clients/training": "",
    "clients/training/building": "batch_layout ready_runs row_gathering window_build window_prefetch",
    "clients/training/order": "large_columns rank_shares reused_memory rows_of_plan shards shuffle",
    "clients/training/sources": "loader_tasks training_splits uninterrupted",
    "clients/transport": "access feeder inline_files remote sending",
    "clients/windows": "named_columns window_builders",
    "executor": "",
    "executor/api": "checked_options computation engine errors_of_rows ownership",
    "executor/changes": "build_graph build_loops",
    "executor/datasets": "dataset_files dataset_writer sink stored_dataset write_dataset",
    "executor/exchange": "exchange parallel_epoch planned_exchanges routing",
    "executor/graph": "graph_computation graph_files graph_service graph_sources statements",
    "executor/journal": "durable_tasks inspection kept_bytes kept_reader records task_journal",
    "executor/plans": "cluster computation_by_size continuous dataflow result_files static_tables",
    "executor/service": "embedded",
    "executor/spark": "graphs make_cluster plan_frames sessions",
    "executor/spark/applications": "connect_server local_workers",
    "executor/tasks": "describe task task_state task_uploads",
    "operators": "group_measures recomputed_rounds write",
    "operators/changes": "retraction_check",
    "operators/changes/event_time": "forgetting row_watermarks timed_rows",
    "operators/changes/network": "network network_graph network_statistics rounds_and_limits schedule",
    "operators/indexes": "__init__ arrow_index index key_range kind sql",
    "operators/kernels": "__init__",
    "operators/merging": "kinds matcher merge pair_filter pieces sorted_input",
    "operators/sources/formats": "__init__ arrow csv format matching parquet_pages",
    "operators/sources/formats/ipc": "arrow_columns arrow_messages arrow_parts",
    "operators/sources/formats/undecoded": "long_lists plain_numbers",
    "operators/python_functions": "__init__ look_around re2_cost",
    "operators/testing": "__init__",
    "operators/user": "user_code",
    "operators/writing": "formats matching_columns modes part_writer staged_write table_folder",
    "planner": "dialect meaning prepare prepare_changes",
    "planner/changes": "change_nodes lower_changes",
    "planner/changes/event_time": "floors kept_state lower_final_joins lower_final_windows slices_of_rows",
    "planner/changes/unnesting": "__init__",
    "planner/choose": "choose_loops sliding_operators sorted_operators",
    "planner/cut": "column_selection cut divide fragments kernels operated",
    "planner/decode": "__init__",
    "planner/decode/declarations": "declared_types details extensions field_names habits type_sizes",
    "planner/decode/expressions": "__init__ selection window_function",
    "planner/decode/relations": "__init__ extension write",
    "planner/decode/relations/event_time": "",
    "planner/decode/relations/joins": "index_lookup_join inputs_and_keys join_schema",
    "planner/decode/relations/loops": "",
    "planner/decode/relations/reads": "declared_order declared_read local_files read",
    "planner/distribution": "distribute distributed_stages origins spreading",
    "planner/explain": "explain_changes explain_channels explain_plan explanation_text state_bounds",
    "planner/functions/templates": "__init__ comparison named_values use window_functions",
    "planner/functions/templates/additions": "__init__",
    "planner/graph": "graph_structure lower_graph prepare_graph",
    "planner/ordering": "form",
    "planner/sql/relations": "",
    "server": "",
    "server/access": "authenticating certificate connections doorkeeper socket_paths tokens",
    "server/cli": "",
    "server/endpoints": "",
    "server/setup": "log_lines pools registered settings trust",
}
"""The modules of each room that other rooms import, without those that the room's table names. `__init__` is the room
itself. Rooms with more than `MOST_DOORS` are left out.
"""

SPOKEN = "values and functions that the rooms below speak in"
TWO_EXECUTORS = "this process and Spark each run pipelines, and take other parts of the room"
PUT_TOGETHER = "parts that one module below puts together"
IN_TURN = "steps that do not know each other, each asked for by its name"
MORE_DOORS: Final = {
    **dict.fromkeys(
        (
            "clients/transport",
            "executor/api",
            "executor/ledger",
            "executor/runtime",
            "operators/arrays",
            "operators/changes/kept",
            "operators/changes/network",
            "operators/changes/values",
            "operators/core",
            "operators/writing",
            "planner/analysis",
            "planner/decode/declarations",
            "planner/decode/encoding",
            "planner/ir",
            "planner/physical",
            "proto",
            "proto/arrow",
            "proto/encoding",
        ),
        SPOKEN,
    ),
    **dict.fromkeys(
        ("executor/datasets", "executor/exchange", "executor/pipelines", "executor/plans", "executor/spark/worker"),
        TWO_EXECUTORS,
    ),
    **dict.fromkeys(
        (
            "clients/training/building",
            "clients/training/order",
            "executor/graph",
            "executor/tasks",
            "operators/merging",
            "operators/slices",
            "planner",
            "server/access",
            "server/calls",
            "server/setup",
        ),
        PUT_TOGETHER,
    ),
    **dict.fromkeys(
        (
            "executor/checkpoints",
            "executor/journal",
            "operators/duckdb",
            "operators/sources",
            "planner/changes/event_time",
            "planner/cut",
            "planner/distribution",
            "planner/explain",
            "planner/functions",
            "planner/sql",
        ),
        IN_TURN,
    ),
    "executor/spark": "the sessions, and what runs in them: tasks of plans and graphs, and plans over DataFrames",
    "operators/indexes": "the table of kinds, and the values in which the planner and Spark describe an index",
    "operators/sources/formats": "the table of formats, and the parts of one format that others read by themselves",
    "planner/decode/relations/reads": "a file for each kind of read; two tables and another relation name them",
    "planner/functions/templates": "the table of functions, the values that a template gets and gives, and their names",
    "planner/rewrite": "the table of rewrites, and the rewrites that also run in the middle of another pass",
}
"""Rooms with more than `FEW_DOORS`, and why."""

MOST_LINES: Final = 450
LONG_FILES: Final = {
    "clients/task.py": "the public methods of a task, most lines of which are their docstrings",
    "proto/values.py": "declarations alone",
}
"""Longer files, and why each is one."""

MOST_BODY_LINES: Final = 50
LONG_FUNCTIONS: Final = {
    "executor/changes/operator_factory.py": {"operator"},
    "planner/changes/lower_changes.py": {"_lowered"},
    "planner/explain/described.py": {"described"},
}
"""Functions with more lines in their bodies: each has a line or two for each kind of relation."""


def room(name: str) -> tuple[str, str]:
    """The package and the room of a module."""
    module = OWN[name]
    parts = (name if module.path.name == "__init__.py" else module.package).split(".")[1:]
    if parts and parts[0] in ROOMS:
        return parts[0], parts[1] if len(parts) > 1 else FLAT
    if name.removeprefix("tidegate.") in CLIENT_VALUES:
        return "clients", "values"
    return "clients", parts[0] if parts else FLAT


def imported(module: Module) -> Iterator[tuple[str, int]]:
    """The project's own modules that a module imports when it runs, also inside of functions, with the lines."""
    for import_ in module.imports:
        target = import_.name
        while import_.own and target not in OWN:
            target = target.rpartition(".")[0]
        if import_.own and import_.at_run and target != module.name:
            yield target, import_.line


def test_every_folder_is_in_the_order_of_rooms() -> None:
    rooms = defaultdict(set)
    for name in OWN:
        package, inside = room(name)
        rooms[package].add(inside)
    assert {package: inside - {FLAT, "values"} for package, inside in rooms.items()} == {
        package: set(rooms) - {FLAT, "values"} for package, rooms in ROOMS.items()
    }


def test_imports_point_one_way_between_rooms() -> None:
    wrong = []
    for name, module in OWN.items():
        package, inside = room(name)
        if module.path.name == "__init__.py" and inside == FLAT:
            continue  # it names what users import
        for target, line in imported(module):
            other, there = room(target)
            if other == package and ROOMS[package].index(there) > ROOMS[package].index(inside):
                wrong.append(f"{module.path}:{line} imports {target}")
    assert wrong == []


def test_other_rooms_enter_a_room_by_its_doors_alone() -> None:
    doors = {folder: entered - in_table(folder) for folder, entered in entered_rooms().items()}
    listed = {folder: entered for folder, entered in doors.items() if len(entered) <= MOST_DOORS}
    assert listed == {folder: set(names.split()) for folder, names in DOORS.items()}
    assert {folder for folder, entered in doors.items() if len(entered) > FEW_DOORS} == MORE_DOORS.keys()


def entered_rooms() -> dict[str, set[str]]:
    """The modules of each room that modules outside of it import. A folder inside a room is outside, too."""
    doors: dict[str, set[str]] = {str(module.path.parent.relative_to(TOP)): set() for module in OWN.values()}
    for module in OWN.values():
        folder = module.path.parent
        for target, _ in imported(module):
            entered = OWN[target].path
            if folder != entered.parent and entered.parent not in folder.parents:
                doors[str(entered.parent.relative_to(TOP))].add(entered.stem)
    return doors


def in_table(folder: str) -> set[str]:
    """The files of a collection that its table names."""
    paths = [
        OWN[target].path
        for module in OWN.values()
        if str(module.path.relative_to(TOP)) == TABLES.get(folder)
        for target, _ in imported(module)
    ]
    return {path.stem for path in paths if path.parent == TOP / folder}


def test_no_files_import_each_other_in_a_circle_when_they_run() -> None:
    graph = {name: {target for target, _ in imported(module)} for name, module in OWN.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" <- ".join(circle.args[1]))


def test_every_room_says_what_it_is_for() -> None:
    silent = [
        name for name, module in OWN.items() if module.path.name == "__init__.py" and not ast.get_docstring(module.tree)
    ]
    assert silent == []


def test_the_page_for_contributors_lists_every_folder_of_tests_with_its_sentence() -> None:
    folders = {path.parent.name: ast.get_docstring(parsed(path)) for path in (TOP / "tests").glob("*/__init__.py")}
    page = (TOP / "CONTRIBUTING.md").read_text()
    assert dict(re.findall(r"^\| `tests/([a-z]+)/` \| (.*) \|$", page, re.MULTILINE)) == folders


def test_no_room_has_more_files_than_can_be_looked_through() -> None:
    files = Counter(module.path.parent for module in OWN.values() if module.path.name != "__init__.py")
    assert {str(folder): count for folder, count in files.items() if count > MOST_FILES} == {}


def test_no_file_is_longer_than_can_be_read_at_once_unless_it_is_said_why() -> None:
    lines = {str(module.path.relative_to(TOP)): module.path.read_text().count("\n") for module in OWN.values()}
    assert {path for path, count in lines.items() if count > MOST_LINES} == set(LONG_FILES)


def test_no_function_is_longer_than_can_be_read_at_once_unless_it_is_said_why() -> None:
    long = defaultdict(set)
    for module in OWN.values():
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and body_lines(function) > MOST_BODY_LINES:
                long[str(module.path.relative_to(TOP))].add(function.name)
    assert long == LONG_FUNCTIONS


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function without its signature and its docstring."""
    first = function.body[1 if ast.get_docstring(function) is not None and len(function.body) > 1 else 0]
    return (function.end_lineno or 0) - first.lineno + 1


def test_a_module_has_a_name_of_its_own_unless_it_is_said_why_not() -> None:
    names = Counter(name.rpartition(".")[2] for name, module in OWN.items() if module.path.name != "__init__.py")
    assert {name for name, count in names.items() if count > 1} == set(TWICE)


def test_the_page_on_architecture_lists_every_room_with_its_sentence() -> None:
    rooms = {
        f"{module.path.parent.relative_to(TOP)}/": (ast.get_docstring(module.tree) or "").split("\n\n")[0]
        for name, module in OWN.items()
        if module.path.name == "__init__.py" and room(name)[1] != FLAT
    }
    page = re.sub(r"\[([^]]*)\]\(glossary\.md[^)]*\)", r"\1", (TOP / "docs" / "architecture.md").read_text())
    listed = dict(re.findall(r"^\| `([a-z_/]+/)` \| (.*) \|$", page, re.MULTILINE))
    assert {folder: listed.get(folder) for folder in rooms} == {
        folder: " ".join(sentence.split()) for folder, sentence in rooms.items()
    }
