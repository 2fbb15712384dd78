"""Moments that are computed from the numbers of slices."""

from __future__ import annotations

import pyarrow as pa

from tidegate.operators.kernels.kernel_expressions import Column, Moment, compiled


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64())], names=["number"])


def test_batches_of_one_slice_share_its_beginning() -> None:
    moments = compiled(Moment(number=Column(0), size=60, origin=5, farthest=1 << 40, type=pa.timestamp("us")))
    first, fewer, other = (moments(numbers(*some)) for some in ([7] * 4, [7] * 3, [8] * 2))
    assert [array.cast(pa.int64()).to_pylist() for array in (first, fewer, other)] == [[425] * 4, [425] * 3, [485] * 2]
    assert fewer.buffers()[1].address == first.buffers()[1].address
    assert other.buffers()[1].address != first.buffers()[1].address


def test_a_batch_of_several_slices_has_the_beginning_of_each() -> None:
    moments = compiled(Moment(number=Column(0), size=2, origin=0, farthest=1 << 20, type=pa.date32()))
    days = [moments(numbers(*some)).cast(pa.int32()).to_pylist() for some in ([3, 3], [3, 4], [-1, -1], [])]
    assert days == [[6, 6], [6, 8], [-2, -2], []]
