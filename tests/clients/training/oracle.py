"""The order of a loader, one row at a time, in plain Python."""

from __future__ import annotations

from collections.abc import Sequence

MASK = 2**64 - 1
STEP, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def finished(state: int) -> int:
    state = (state ^ (state >> 30)) * FIRST & MASK
    state = (state ^ (state >> 27)) * SECOND & MASK
    return state ^ (state >> 31)


def mixed(*words: int) -> int:
    state = 0
    for word in words:
        state = finished((state + word * FIRST + STEP) & MASK)
    return state


def permuted(count: int, key: int) -> list[int]:
    """Ties of the upper bits, which the lower ones of a number replace, go by the number."""
    bits = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda number: (finished((key + (number + 1) * STEP) & MASK) >> bits, number))


def epoch_rows(
    splits: Sequence[Sequence[int]], sizes: Sequence[int], seed: int, window_rows: int, epoch: int
) -> list[int]:
    """The rows of an epoch in order. `splits` are the result's rows of each split, `sizes` the rows that it reads."""
    windows: list[list[int]] = [[]]
    read = 0
    for split in permuted(len(splits), mixed(seed, 1, epoch)):
        if read >= window_rows:
            windows.append([])
            read = 0
        windows[-1].append(split)
        read += sizes[split]
    order: list[int] = []
    for number, window in enumerate(windows):
        rows = [row for split in window for row in splits[split]]
        order += [rows[at] for at in permuted(len(rows), mixed(seed, 2, epoch, number))]
    return order


def sharded_batches(
    splits: Sequence[Sequence[int]],
    seed: int,
    window_rows: int,
    epoch: int,
    size: int,
    shards: int,
    tail: str,
    turns: int = 1,
) -> list[list[int]]:
    """The batches of an epoch in shards. Batch b is of part b % turns: it has as many rows of every shard of the part.
    The rest of the rows is behind them.
    """
    order = [(split, row) for split in permuted(len(splits), mixed(seed, 1, epoch)) for row in splits[split]]
    full, width = len(order) // size, size // shards
    parts: list[list[int]] = []
    begin = 0
    for shard in range(shards * turns):
        of_shard = order[begin : begin + sum(b % turns == shard // shards for b in range(full)) * width]
        begin += len(of_shard)
        windows: list[list[int]] = [[]]
        for at, (split, row) in enumerate(of_shard):
            before = of_shard[at - 1][0] if at else split
            if split != before and len(windows[-1]) >= window_rows // (shards * turns):
                windows.append([])
            windows[-1].append(row)
        rows: list[int] = []
        for number, window in enumerate(windows):
            rows += [window[at] for at in permuted(len(window), mixed(seed, 4, epoch, shard, number))]
        parts.append(rows)
    cut = []
    for b in range(full):
        of_batch = parts[b % turns * shards : (b % turns + 1) * shards]
        cut.append([row for part in of_batch for row in part[b // turns * width : (b // turns + 1) * width]])
    last = [row for _, row in order[full * size :]]
    return cut + batches([last[at] for at in permuted(len(last), mixed(seed, 4, epoch, shards * turns, 0))], size, tail)


def batches(rows: Sequence[int], size: int, tail: str) -> list[list[int]]:
    cut = [list(rows[first : first + size]) for first in range(0, len(rows), size)]
    if cut and len(cut[-1]) < size and tail == "drop":
        cut.pop()
    if cut and len(cut[-1]) < size and tail == "pad":
        cut[-1] = [cut[-1][at % len(cut[-1])] for at in range(size)]
    return cut
