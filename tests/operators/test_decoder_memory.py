"""The memory that a decoder of an Arrow buffer keeps, by the headers of the buffer's frames."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from tidegate.operators.core.piece import FilePiece
from tidegate.operators.sources.formats.arrow import ArrowReader
from tidegate.operators.sources.formats.format import PartTooLarge
from tidegate.operators.sources.formats.ipc.decoder_memory import window_bytes

from .data import pieces_of

KIB, MIB = 1 << 10, 1 << 20
ZSTD, LZ4 = b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"
LENGTH = 256 * MIB
WINDOW_128_MIB = 17 << 3
"""The descriptor of the largest window that the library decodes."""


def zstd_frame(window: int, *, blocks: int = 3, content: int | None = None, checksum: bool = False) -> bytes:
    """A frame of blocks, each of which is a byte 131,072 times, with this descriptor of its window."""
    flags = (0 if content is None else 0xC0) | (4 if checksum else 0)
    stated = b"" if content is None else content.to_bytes(8, "little")
    data = b"".join(
        ((131_072 << 3) | (1 << 1) | (number == blocks - 1)).to_bytes(3, "little") + b"x" for number in range(blocks)
    )
    return ZSTD + bytes([flags, window]) + stated + data + (b"\0" * 4 if checksum else b"")


def lz4_frame(size_id: int, *, blocks: int = 3, content: int | None = None, checksums: bool = False) -> bytes:
    """A frame of stored blocks, with this number of its largest block."""
    flags = 0x40 | (0 if content is None else 8) | (20 if checksums else 0)
    stated = b"" if content is None else content.to_bytes(8, "little")
    block = (0x8000_0000 | 10).to_bytes(4, "little") + b"0123456789" + (b"\0" * 4 if checksums else b"")
    return LZ4 + bytes([flags, size_id << 4]) + stated + b"\0" + block * blocks + b"\0" * (8 if checksums else 4)


def kept(frames: bytes, codec: str, length: int = LENGTH) -> int:
    before = b"before"
    file = pa.BufferReader(before + frames + b"behind")
    return window_bytes(file, len(before), len(frames), length, codec)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize(
    ("descriptor", "window"),
    [(0, KIB), (9 << 3, 512 * KIB), (9 << 3 | 4, 768 * KIB), (11 << 3, 2 * MIB), (WINDOW_128_MIB, 128 * MIB)],
)
def test_a_frame_of_zstd_states_its_window(descriptor: int, window: int, checksum: bool) -> None:
    assert kept(zstd_frame(descriptor, checksum=checksum), "zstd") == window
    assert kept(zstd_frame(descriptor, content=LENGTH), "zstd") == window
    assert kept(zstd_frame(0, checksum=checksum) + zstd_frame(descriptor), "zstd") == max(window, KIB)


def test_a_frame_behind_the_one_that_has_all_is_not_decoded() -> None:
    assert kept(zstd_frame(0, content=LENGTH) + zstd_frame(WINDOW_128_MIB), "zstd") == KIB
    assert kept(lz4_frame(4, content=LENGTH) + lz4_frame(7), "lz4") == 128 * KIB


def test_a_frame_of_one_segment_keeps_its_content() -> None:
    for data in (b"ab" * 20, b"ab" * 500, b"ab" * 40_000):
        frame = pa.Codec("zstd").compress(data, asbytes=True)
        assert frame[4] & 32
        assert kept(frame, "zstd") == len(data)


@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize(("number", "size"), [(4, 64 * KIB), (5, 256 * KIB), (6, MIB), (7, 4 * MIB)])
def test_a_frame_of_lz4_states_its_blocks(number: int, size: int, checksums: bool) -> None:
    assert kept(lz4_frame(number, checksums=checksums), "lz4") == 2 * size
    assert kept(lz4_frame(4, checksums=checksums) + lz4_frame(number), "lz4") == 2 * size


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_frames_that_cannot_be_read_keep_the_most(codec: str) -> None:
    most = {"zstd": 128 * MIB, "lz4": 8 * MIB}[codec]
    small = {"zstd": zstd_frame(0), "lz4": lz4_frame(4)}[codec]
    many = {"zstd": zstd_frame(0, blocks=100_000), "lz4": lz4_frame(4, blocks=100_000)}[codec]
    for frames in (b"no frame", small + b"no frame", many):
        assert kept(frames, codec) == most
    assert kept(b"no frame", codec, length=1_000) == 1_000


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("kind", ["zeros", "noise"])
def test_frames_as_pyarrow_writes_them_keep_little(codec: str, kind: str) -> None:
    noise = np.random.default_rng(1).bytes(8 * MIB)
    data = noise if kind == "noise" else bytes(8 * MIB)
    frame = pa.Codec(codec).compress(data, asbytes=True)
    assert kept(frame, codec, len(data)) <= 8 * MIB
    assert kept(frame, codec) <= {"zstd": 2 * MIB, "lz4": 8 * MIB}[codec]


def test_columns_that_state_large_windows_are_refused(tmp_path: Path) -> None:
    path, columns = tmp_path / "windows.arrow", 3
    batch = pa.record_batch({f"c{at}": pa.repeat(pa.scalar(0, pa.int32()), 2 * MIB) for at in range(columns)})
    with pa.ipc.new_file(path, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as file:
        file.write_batch(batch)
    assert rows_of(path) == batch.num_rows
    start, *frames = path.read_bytes().split(ZSTD)
    assert len(frames) == columns
    path.write_bytes(ZSTD.join([start, *(frame[:1] + bytes([WINDOW_128_MIB]) + frame[2:] for frame in frames)]))
    with pytest.raises(PartTooLarge, match="3 columns, all of which are decoded side by side"):
        rows_of(path)


def rows_of(path: Path) -> int:
    """The rows of a file, read where a row may have 1 MiB."""
    (piece,) = pieces_of(path, path.parent)
    assert isinstance(piece, FilePiece)
    with closing(ArrowReader(piece, LocalFileSystem(use_mmap=False), MIB)) as reader:
        return sum(part.num_rows for _, part in reader.batches(range(len(reader.schema))))
