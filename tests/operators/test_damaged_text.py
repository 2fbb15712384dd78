"""Text files that were cut, or are no text: never their first part."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.proto.errors import SplitError

from .data import column, pieces_of, scanned

X = [column("x", pa.int64())]
LINE = b'{"x": %d, "other": "text that nobody asks for"}\n'
FEW, MANY = 3, 400_000  # the latter are several blocks


def framed(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def refused(path: Path, root: Path) -> None:
    with pytest.raises(SplitError) as error:
        scanned(X, pieces_of(path, root, X))
    assert error.value.reason == "FILE_UNREADABLE"


@pytest.mark.parametrize("rows", [FEW, MANY])
@pytest.mark.parametrize("missing", [2, 5, 20, 44])
def test_json_that_is_cut_inside_a_row_is_refused(rows: int, missing: int, root: Path) -> None:
    data = b"".join(LINE % n for n in range(rows))
    (root / "f.json").write_bytes(data[:-missing])
    refused(root / "f.json", root)


@pytest.mark.parametrize("ending", ["gz", "zst"])
@pytest.mark.parametrize("rows", [FEW, MANY])
@pytest.mark.parametrize("kept", [0.3, 0.9, 0.999])
def test_compressed_json_that_is_cut_is_refused(ending: str, rows: int, kept: float, root: Path) -> None:
    data = b"".join(LINE % n for n in range(rows))
    packed = gzip.compress(data, 1) if ending == "gz" else framed(data)
    path = root / f"f.json.{ending}"
    path.write_bytes(packed)
    assert len(scanned(X, pieces_of(path, root, X))) == rows
    path.write_bytes(packed[: int(len(packed) * kept)])
    refused(path, root)


@pytest.mark.parametrize("rows", [FEW, MANY])
@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80"], ids=["byte", "half", "surrogate"])
@pytest.mark.parametrize("name", ["f.json", "f.csv"])
def test_text_in_columns_that_nobody_reads_has_to_be_utf8(name: str, bad: bytes, rows: int, root: Path) -> None:
    line = LINE if name == "f.json" else b"%d,text that nobody asks for\n"
    lines = [line % n for n in range(rows)]
    lines[-1] = lines[-1].replace(b"nobody", b"no" + bad + b"body")
    (root / name).write_bytes((b"" if name == "f.json" else b"x,other\n") + b"".join(lines))
    refused(root / name, root)


def test_text_that_ends_in_the_middle_of_a_character_is_refused(root: Path) -> None:
    (root / "f.csv").write_bytes("x,other\n1,é".encode()[:-1])
    refused(root / "f.csv", root)


def test_characters_across_the_blocks_in_which_text_is_read_are_whole(root: Path) -> None:
    rows = [{"x": n, "other": "é" * (n % 50)} for n in range(300_000)]
    (root / "f.json").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    assert len(scanned(X, pieces_of(root / "f.json", root, X))) == len(rows)


@pytest.mark.parametrize("between", [b"\0", b"\0\n", b" \0 "])
def test_a_zero_in_json_ends_nothing(between: bytes, root: Path) -> None:
    (root / "f.json").write_bytes(LINE % 1 + between + LINE % 2)
    refused(root / "f.json", root)
