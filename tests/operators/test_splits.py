from __future__ import annotations

import errno
import glob
import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.operators.core.piece import FilePiece, InlinePiece, Piece
from tidegate.operators.core.row_reader import no_rows
from tidegate.operators.sources import split_pieces
from tidegate.operators.sources.formats import parquet
from tidegate.operators.sources.listing import BOUNDS, Listing
from tidegate.operators.sources.split_pieces import estimated_rows, expand, native, native_obstacle, open_pieces
from tidegate.proto.errors import Forbidden, InvalidRequest, NotFound, SplitError
from tidegate.proto.values import FileSplit

from .data import column, expanded, pieces_of, write

TABLE = pa.table({"x": list(range(10))})
ORIGIN = "split 3 of source 't'"


def names(pieces: tuple[FilePiece, ...], root: Path) -> list[str]:
    return [os.path.relpath(piece.path, root) for piece in pieces]


def ranges(pieces: Sequence[Piece]) -> list[tuple[int, int] | None]:
    return [piece.rows for piece in pieces if isinstance(piece, FilePiece)]


def files(root: Path, *paths: str) -> None:
    for path in paths:
        write(root / path, TABLE)


def test_a_folder_expands_sorted_by_path_components_without_hidden_files(root: Path) -> None:
    files(root, "b.parquet", "a/z.parquet", "a-b/a.parquet", "a/k/y.parquet")
    files(root, ".h/x.parquet", "_t/x.parquet", "_x.parquet", ".x.parquet")
    assert names(expanded(root, root), root) == ["a/k/y.parquet", "a/z.parquet", "a-b/a.parquet", "b.parquet"]


def test_a_pattern_expands_in_the_same_order(root: Path) -> None:
    files(root, "b/1.parquet", "a/2.parquet", "a/1.parquet", "a/_1.parquet", "c/d/1.parquet")
    assert names(expanded(root / "*" / "*.parquet", root), root) == ["a/1.parquet", "a/2.parquet", "b/1.parquet"]
    assert len(expanded(root / "**" / "*.parquet", root)) == 4
    assert len(expanded(root / "[ab]*", root)) == 3


NAMES = st.sampled_from(["a", "b.x", "ab.x", ".h", "k=1"])
PATTERNS = st.sampled_from(["a", "b.x", "*", "**", "*.x", "?", "[ab]*", ".h", ".*", "k=*", "nothing"])


@given(
    tree=st.sets(st.lists(NAMES, min_size=1, max_size=4).map(tuple)), pattern=st.lists(PATTERNS, min_size=1, max_size=4)
)
def test_a_pattern_means_what_it_means_to_glob(tree: set[tuple[str, ...]], pattern: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        for path in sorted(tree, key=len, reverse=True):  # what is a folder already stays one
            Path(root, *path).parent.mkdir(parents=True, exist_ok=True)
            Path(root, *path).touch()
        matches = glob.iglob(os.path.join(root, *pattern), recursive=True)
        wanted = {
            os.path.normpath(path) for path in matches if os.path.exists(path)
        }  # it also says "nothing/" of "nothing/**"
        assert {os.path.normpath(path) for path in Listing(root, BOUNDS).matches(root, pattern, 0)} == wanted


@pytest.mark.parametrize("asked", ["", "*", "**", "*/*", "*/there/*.csv", "*/not/*.csv", "**/nothing.csv", "l*/**"])
def test_a_link_to_a_folder_outside_of_the_roots_is_not_entered(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    files(outside, "there/a.csv")
    (root / "link").symlink_to(outside)
    looked: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: looked.append(os.path.realpath(folder)) or scandir(folder))
    with pytest.raises(Forbidden, match=r"a link to a folder outside of those that this server may read") as refused:
        expanded(root / asked, root)
    assert refused.value.reason == "OUTSIDE_ROOTS"
    assert not [folder for folder in looked if folder.startswith(str(outside))]


def test_a_file_that_is_removed_after_it_was_listed_is_not_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(root, "a.csv")
    monkeypatch.setattr(split_pieces, "files_below", lambda *_, **__: [str(root / "a.csv"), str(root / "b.csv")])
    with pytest.raises(NotFound, match=r"b\.csv was removed while the files of .* were listed") as refused:
        expanded(root, root)
    assert refused.value.reason == "FILE_NOT_FOUND"


def test_a_link_that_is_exchanged_after_its_check_leads_nowhere_else(
    root: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    files(outside, "a.csv")
    files(root, "a.csv")
    link = root / "link.csv"
    link.symlink_to(root / "a.csv")
    realpath, asked = os.path.realpath, []

    def exchanging(path: str) -> str:
        real = realpath(path)
        if str(path) == str(link):
            asked.append(real)
            if len(asked) == 2:  # once for the split, once for its file
                link.unlink()
                link.symlink_to(outside / "a.csv")
        return real

    monkeypatch.setattr(os.path, "realpath", exchanging)
    [piece] = expand(FileSplit(str(link)), [str(root)], "split 1")
    assert piece.path == realpath(root / "a.csv")


def test_a_link_to_a_folder_below_a_root_is_entered(root: Path) -> None:
    files(root, "real/a.csv")
    (root / "link").symlink_to(root / "real")
    assert names(expanded(root / "l*" / "*.csv", root), root) == ["real/a.csv"]


def test_a_link_that_leads_to_nothing_is_skipped_by_a_pattern(root: Path) -> None:
    files(root, "a.parquet")
    (root / "b.parquet").symlink_to(root / "nothing.parquet")
    assert names(expanded(root / "*.parquet", root), root) == ["a.parquet"]


def test_a_file_whose_name_looks_like_a_pattern_is_itself(root: Path) -> None:
    files(root, "a[1].parquet", "a1.parquet")
    assert names(expanded(root / "a[1].parquet", root), root) == ["a[1].parquet"]


def test_folders_below_the_root_give_columns(tmp_path: Path) -> None:
    root = tmp_path / "env=prod"
    files(root, "y=2024/c=a%2Fb/f.parquet", "y=__HIVE_DEFAULT_PARTITION__/c=/f.parquet")
    first, second = expanded(root, root)
    assert first.partition == (("y", "2024"), ("c", "a/b"))
    assert second.partition == (("y", None), ("c", ""))


@pytest.mark.parametrize(
    "path",
    ["../out/f.parquet", "/etc/passwd", "../nothing.parquet", "link.parquet", "out", "../out/*", "*/../../out/*"],
)
def test_outside_of_the_roots_is_forbidden_whether_it_exists_or_not(path: str, root: Path) -> None:
    write(root.parent / "out" / "f.parquet", TABLE)
    (root / "link.parquet").symlink_to(root.parent / "out" / "f.parquet")
    (root / "out").symlink_to(root.parent / "out")
    with pytest.raises(Forbidden):
        expanded(root / path, root)


def test_a_link_inside_a_folder_that_leads_outside_is_forbidden(root: Path) -> None:
    files(root, "a.parquet")
    write(root.parent / "out.parquet", TABLE)
    (root / "b.parquet").symlink_to(root.parent / "out.parquet")
    with pytest.raises(Forbidden, match=r"b\.parquet"):
        expanded(root, root)


@pytest.mark.parametrize("asked", ["inner/*", "*", "."])
def test_what_lies_outside_is_not_named(asked: str, root: Path) -> None:
    write(root.parent / "out" / "secret.parquet", TABLE)
    (root / "inner").symlink_to(root.parent / "out")
    with pytest.raises(Forbidden) as refused:
        expanded(root / asked, root)
    assert "secret" not in refused.value.message


def test_a_link_to_a_file_below_a_root_is_that_file(root: Path) -> None:
    files(root, "a.parquet")
    (root / "b.parquet").symlink_to(root / "a.parquet")
    assert names(expanded(root / "b.parquet", root), root) == ["a.parquet"]


def test_a_circle_of_folders_ends(root: Path) -> None:
    files(root, "a/f.parquet")
    (root / "a" / "again").symlink_to(root)
    assert names(expanded(root, root), root) == ["a/f.parquet"]


@pytest.mark.parametrize(
    "asked",
    [
        "locked/a.parquet",
        "locked",
        "locked/*.parquet",
        ".",
        "lo*",
        "*/a.parquet",
        "*/*.parquet",
        "**/*.parquet",
        "**",
        "*/within/*.parquet",
        "l*d/**/a.parquet",
    ],
)
def test_a_folder_that_may_not_be_looked_into_is_told_not_left_out(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "locked" / "a.parquet", pa.table({"x": [1]}))
    write(tmp_path / "open.parquet", pa.table({"x": [1]}))
    for name in ("stat", "scandir"):  # as for a user who is not root
        monkeypatch.setattr(os, name, _denying(getattr(os, name), tmp_path / "locked", below=name == "stat"))
    with pytest.raises(Forbidden, match=r"locked.* cannot be read on this machine: permission denied \(split 1"):
        expand(FileSplit(str(tmp_path / asked)), [str(tmp_path)], "split 1")


def _denying(call: Callable[..., Any], folder: Path, *, below: bool) -> Callable[..., Any]:
    def denied(path: Any, *rest: Any, **named: Any) -> Any:
        asked = Path(os.fspath(path)) if isinstance(path, str | os.PathLike) else None
        if asked is not None and (folder in asked.parents if below else asked == folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(asked))
        return call(path, *rest, **named)

    return denied


@pytest.mark.parametrize("path", ["none.parquet", "*.nothing", "empty"])
def test_what_does_not_exist_is_named_as_missing_on_the_server(path: str, root: Path) -> None:
    (root / "empty").mkdir()
    with pytest.raises(NotFound, match=f"{path.replace('*', '.')}.*on this machine"):
        expanded(root / path, root)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (FileSplit(path="a.xyz"), "name a format of arrow, csv, json, orc, parquet"),
        (FileSplit(path="a.parquet", format="avro"), "unknown format 'avro'"),
        (FileSplit(path="s3://bucket/a.parquet"), "s3://"),
        (FileSplit(path=""), "empty"),
        (FileSplit(path="a\x00b"), "NUL"),
        (FileSplit(path="a.parquet", rows=(5, 2)), "not a range"),
        (FileSplit(path="a.parquet", rows=(-1, 2)), "not a range"),
        (FileSplit(path="a.parquet", rows=(0, 1), row_groups=(0,)), "not both"),
        (FileSplit(path="a.parquet", row_groups=(0, 0)), "at most once"),
        (FileSplit(path="a.parquet", row_groups=(-1,)), "numbers from 0 on"),
        (FileSplit(path="a.csv", rows=(0, 1)), "as a whole"),
        (FileSplit(path=".", rows=(0, 1)), "single file"),
        (FileSplit(path="pipe", format="csv"), "not a file"),
    ],
)
def test_a_split_that_can_never_be_read_is_refused(
    split: FileSplit, message: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(root, "a.parquet", "b.parquet")
    (root / "a.xyz").touch()
    (root / "a.csv").write_text("x\n1\n")
    os.mkfifo(root / "pipe")
    if split.path == ".":
        for name in ("a.xyz", "pipe"):
            (root / name).unlink()
    monkeypatch.chdir(root)
    with pytest.raises(InvalidRequest, match=message):
        expand(split, [str(root)], ORIGIN)


def test_a_path_that_is_no_text_is_refused(root: Path) -> None:
    for name in ("\ud800", "a\udcff.parquet"):
        with pytest.raises(InvalidRequest, match="cannot be a path: a path must be UTF-8"):
            expand(FileSplit(f"{root}/{name}"), [str(root)], ORIGIN)


@pytest.mark.parametrize("name", [b"a\xff.parquet", b"k=\xff/a.parquet"])
def test_a_file_whose_name_is_no_text_is_named_in_bytes(root: Path, name: bytes) -> None:
    file = root / os.fsdecode(name)
    file.parent.mkdir(exist_ok=True)
    file.touch()
    with pytest.raises(
        InvalidRequest, match=r"name of a file is not UTF-8: b'.*\\xff.* \(split 1 of source 't'\)"
    ) as refused:
        expanded(root, root)
    assert str(refused.value).isprintable()


def test_a_nul_in_a_url_is_refused(root: Path) -> None:
    with pytest.raises(InvalidRequest, match="NUL character"):
        expand(FileSplit(f"file://{root}/%00.parquet"), [str(root)], ORIGIN)


def test_expanding_reads_no_content(root: Path) -> None:
    (root / "broken.parquet").write_bytes(b"no parquet")
    (piece,) = expanded(root / "broken.parquet", root)
    assert (piece.schema, piece.version.size) == (None, 10)
    with pytest.raises(SplitError, match=r"broken\.parquet .*cannot be read as parquet"):
        open_pieces([piece])


def test_row_groups_become_pieces_of_up_to_100_000_rows(root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": np.arange(250_000)}), row_group_size=40_000)
    pieces = pieces_of(path, root)
    assert ranges(pieces) == [(0, 80_000), (80_000, 160_000), (160_000, 250_000)]
    assert [piece.row_count for piece in pieces] == [80_000, 80_000, 90_000]
    assert estimated_rows(pieces) == 250_000


def test_a_range_is_cut_at_row_groups_too(root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": np.arange(300_000)}), row_group_size=100_000)
    pieces = pieces_of(path, root, rows=(50_000, 200_001))
    assert ranges(pieces) == [(50_000, 100_000), (100_000, 200_000), (200_000, 200_001)]


def test_row_groups_are_read_in_the_order_asked(root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": range(10)}), row_group_size=3)
    split = FileSplit(path=str(path), row_groups=(3, 0, 1))
    pieces = open_pieces(expand(split, [str(root)], ORIGIN))
    assert ranges(pieces) == [(9, 10), (0, 6)]


@pytest.mark.parametrize("split", [{"rows": (0, 11)}, {"row_groups": (4,)}])
def test_bounds_are_checked_against_the_file(split: dict[str, tuple[int, ...]], root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"x": range(10)}), row_group_size=3)
    asked = FileSplit(path=str(path), rows=split.get("rows"), row_groups=split.get("row_groups"))  # type: ignore[arg-type]
    with pytest.raises(SplitError, match=r"10 rows|no row group 4; there are 4"):
        open_pieces(expand(asked, [str(root)], ORIGIN))


def test_a_file_without_rows_is_still_a_piece(root: Path) -> None:
    path = write(root / "f.parquet", TABLE.slice(0, 0))
    assert [piece.row_count for piece in pieces_of(path, root)] == [0]


def test_footers_prove_that_a_required_column_has_no_null(root: Path) -> None:
    path = write(root / "f.parquet", pa.table({"a": [1, 2], "b": [1, None], "c": [1, 2]}))
    columns = [column("A", pa.int64(), nullable=False), column("b", pa.int64(), nullable=False)]
    (piece,) = pieces_of(path, root, columns)
    assert isinstance(piece, FilePiece)
    assert piece.never_null == {"a"}


def test_the_splits_of_a_file_look_through_it_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[list[str]] = []
    facts_of = parquet._facts_of

    def noted(file: Any, footer: Any, columns: Any, state: Any) -> Any:
        looked.append([column.name for column in columns])
        return facts_of(file, footer, columns, state)

    monkeypatch.setattr(parquet, "_facts_of", noted)
    path = write(root / "f.parquet", pa.table({"n": range(4_000), "m": range(4_000)}))
    n, m = column("n", pa.int64()), column("m", pa.int64())
    for first in range(0, 4_000, 1_000):
        assert [piece.schema.names for piece in pieces_of(path, root, [n], (first, first + 1_000))] == [["n", "m"]]
    assert looked == [["n"]]
    pieces_of(path, root, [n, m], (0, 1_000))
    assert looked == [["n"], ["n", "m"]]
    write(path, pa.table({"n": range(2_000), "k": range(2_000)}))
    assert [piece.schema.names for piece in pieces_of(path, root, [n], (0, 1_000))] == [["n", "k"]]
    assert looked == [["n"], ["n", "m"], ["n"]]


def test_a_changed_file_is_not_opened(root: Path) -> None:
    path = write(root / "f.parquet", TABLE)
    pieces = expanded(path, root)
    write(path, pa.table({"x": [1]}))
    with pytest.raises(SplitError, match=r"f\.parquet .*split 1 of source 't'.* has changed"):
        open_pieces(pieces)


@pytest.mark.parametrize(
    ("table", "type_", "obstacle"),
    [
        ({"x": pa.array([1], pa.int32())}, pa.int64(), None),
        ({"x": pa.array([1], pa.int64())}, pa.int32(), None),
        ({"x": pa.array(["a"]).dictionary_encode()}, pa.string(), None),
        ({"x": pa.array(["a"], pa.large_string())}, pa.string(), None),
        ({"x": pa.array([1], pa.timestamp("ms"))}, pa.timestamp("us"), None),
        ({"x": pa.array([1], pa.timestamp("us", "Asia/Tokyo"))}, pa.timestamp("us", "UTC"), None),
        ({"y": [1]}, pa.list_(pa.int32()), "column 'x' is missing; there are: 'y'"),
        ({"x": [1.5]}, pa.float32(), "double in the file and float in the plan"),
        ({"x": [1]}, pa.float64(), "int64 in the file and double in the plan"),
        ({"x": pa.array([1], pa.timestamp("ns"))}, pa.timestamp("us"), "in the file and timestamp"),
        ({"x": pa.array([1], pa.timestamp("ns"))}, pa.timestamp("us", "UTC"), "no lossless cast"),
        ({"x": ["1"]}, pa.int64(), "no lossless cast"),
        ({"x": [1], "X": [1]}, pa.int64(), "differ only by case"),
        ({"x": [b"ab"]}, pa.binary(2), "fixed_size_binary"),
    ],
)
def test_duckdb_reads_a_file_itself_only_where_it_gives_the_plans_types(
    table: dict[str, object], type_: pa.DataType, obstacle: str | None, root: Path
) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table(table)), root)
    obstacle_there = native_obstacle(pieces, [column("x", type_)])
    assert native(pieces, [column("x", type_)]) is (obstacle is None)
    assert obstacle is None or obstacle in str(obstacle_there)


def test_a_column_whose_name_sql_cannot_write_is_not_for_duckdb(root: Path) -> None:
    pieces = pieces_of(write(root / "f.parquet", pa.table({"": [7]})), root)
    assert "cannot be named in SQL" in str(native_obstacle(pieces, [column("", pa.int64())]))


def test_inline_rows_and_other_formats_are_not_for_duckdb(root: Path) -> None:
    (root / "f.csv").write_text("x\n1\n")
    inline = InlinePiece(read=no_rows, schema=TABLE.schema, origin=ORIGIN, rows=(0, 0), row_count=0)
    assert native_obstacle([inline], []) == f"{ORIGIN} is not a Parquet file"
    assert "f.csv" in str(native_obstacle(pieces_of(root / "f.csv", root), []))


def test_many_files_are_opened_at_the_same_time_and_stay_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"{number:02}.parquet")
    pieces = expand(FileSplit(str(tmp_path)), [str(tmp_path)], "split 1")
    together, real = threading.Barrier(4), split_pieces._open

    def waiting(*arguments: Any) -> tuple[FilePiece, ...]:
        if int(Path(arguments[0].path).stem) < 4:
            together.wait(60)  # forever, if one is opened after the other
        return real(*arguments)

    monkeypatch.setattr(split_pieces, "_open", waiting)
    opened = open_pieces(pieces)
    assert [piece.path for piece in opened] == [piece.path for piece in pieces]
    (tmp_path / "20.parquet").write_bytes(b"no Parquet")
    with pytest.raises(SplitError, match=r"20\.parquet"):
        open_pieces(pieces)
