"""Text files that were cut, or are no text: never their first part."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.operators.sources.formats.text_blocks import CheckedText
from tidegate.proto.errors import SplitError

from .data import column, pieces_of, scanned

X = [column("x", pa.int64())]
LINE = b'{"x": %d, "other": "text that nobody asks for"}\n'
FEW, MANY = 3, 120_000  # the latter are several blocks


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


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64])
def test_blocks_end_anywhere_in_a_character(size: int) -> None:
    text = "aé中😀\ud7ff\U0010ffff" * 3
    for whole in (text.encode(), text.encode()[:-1], b"a\xffb", "é".encode()[:1] + b"a", b"a\x80", b"\x80", b""):
        stream = CheckedText(pa.PythonFile(io.BytesIO(whole), "r"))
        try:
            read = b"".join(iter(lambda: stream.read(size), b""))  # noqa: B023 - called in this turn alone
        except pa.ArrowInvalid as error:
            at = int(re.search(r"near byte ([\d,]+)", str(error))[1].replace(",", ""))  # type: ignore[index]
            with pytest.raises(UnicodeDecodeError) as refused:
                whole.decode()
            assert at == refused.value.start
        else:
            assert read == whole == whole.decode().encode()


@pytest.mark.parametrize(
    "escape", [r"\ud800", r"\udc00", r"\ud800\ud800", r"\udc00\ud800", r"\ud800a", r"\udfff\u0041"]
)
def test_escapes_that_are_half_a_character_are_refused(escape: str, root: Path) -> None:
    (root / "f.json").write_text(f'{{"s": "first"}}\n{{"s": "of {escape}"}}\n')
    with pytest.raises(SplitError, match="surrogate") as refused:
        scanned([column("s", pa.string())], pieces_of(root / "f.json", root, [column("s", pa.string())]))
    assert refused.value.reason == "FILE_UNREADABLE"


@pytest.mark.parametrize("between", [b"\0", b"\0\n", b" \0 "])
def test_a_zero_in_json_ends_nothing(between: bytes, root: Path) -> None:
    (root / "f.json").write_bytes(LINE % 1 + between + LINE % 2)
    refused(root / "f.json", root)
