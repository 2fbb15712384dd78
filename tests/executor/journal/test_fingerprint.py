"""Fingerprints of kept rows: any change shows, and other bytes of the same fingerprint are kept beside each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from tidegate.executor.journal import kept_bytes
from tidegate.executor.ledger.fingerprint import Fingerprint, Same, fingerprint
from tidegate.proto.errors import Refused
from tidegate.proto.values import Cursor

from ...waiting import until
from .restarts import Restarts

DATA = Random(7).randbytes(600_003)
"""More than two blocks, and not whole words."""


def cut(luck: Random, data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = luck.choice((1, 3, 7, 8, 13, 64, 100_000))
        yield data[at : at + size]
        at += size


def test_a_fingerprint_is_the_same_on_every_machine_however_the_bytes_are_cut() -> None:
    assert fingerprint(b"abc").hex() == "99476d3e8603c30094b3ebb18bbb9a33"
    for seed in range(5):
        sink = Fingerprint()
        for part in cut(Random(seed), DATA):
            assert sink.write(part) == len(part)
        assert sink.digest() == sink.digest() == fingerprint(DATA)


def test_bits_a_byte_more_and_words_that_change_places_show() -> None:
    known = {fingerprint(DATA)}
    changed = []
    for at in (0, 7, 8, 300_000, len(DATA) - 1):
        one = bytearray(DATA)
        one[at] ^= 1
        changed.append(bytes(one))
    for flipped in itertools.combinations((7, 15, 300_007), 2):
        one = bytearray(DATA)
        for at in flipped:
            one[at] ^= 0x80
        changed.append(bytes(one))
    changed += [DATA + b"\0", DATA[:-1], DATA[8:16] + DATA[:8] + DATA[16:]]
    for size in (8 << 9, 8 << 15):  # rows, and as many as are summed at once
        changed.append(DATA[size : 2 * size] + DATA[:size] + DATA[2 * size :])
    changed += [b"", b"\0", bytes(8), bytes(16)]
    for one in changed:
        assert fingerprint(one) not in known
        known.add(fingerprint(one))


def test_bytes_are_the_same_if_all_of_them_are() -> None:
    for data, same in ((DATA, True), (DATA[:-1], False), (DATA + b"\0", False), (b"x" + DATA[1:], False)):
        compared = Same(pa.py_buffer(DATA))
        for part in cut(Random(1), data):
            compared.write(part)
        assert bool(compared) is same


def test_rows_with_the_fingerprint_of_others_are_kept_and_are_no_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_bytes._Ahead, "fingerprint", lambda _: bytes(16))
    files = lambda: sum(path.suffix != ".temporary" for path in (service.data / "rows").iterdir())  # noqa: E731
    with Restarts(tmp_path) as service:
        task = service.create()
        splits = [range(20_000), range(1, 20_001), range(2, 20_002), range(20_000)]
        for number, values in enumerate(splits, 1):
            task.add(*values, sequence=number)
        assert files() == 3
        assert task.add(*splits[1], sequence=2).duplicate
        for wrong in (1, 2):
            with pytest.raises(Refused) as refused:
                task.add(*splits[2], sequence=wrong)
            assert refused.value.reason == "SEQUENCE_REUSED"
        task.seal()
        assert task.epoch(1) == list(itertools.chain(*splits))
        service.manager.acknowledge(task.id, Cursor(2))
        until(lambda: not files())


def test_many_rows_that_are_added_again_after_a_restart_are_compared(tmp_path: Path) -> None:
    with Restarts(tmp_path) as service:
        task = service.create()
        task.add(*range(20_000), sequence=1)
        task = service.restart(task)
        assert task.add(*range(20_000), sequence=1).duplicate
        with pytest.raises(Refused) as refused:
            task.add(*range(1, 20_001), sequence=1)
        assert refused.value.reason == "SEQUENCE_REUSED"
