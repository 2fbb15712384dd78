"""The columns of batches: from Arrow to NumPy, and on to PyTorch or JAX.

A *dense* column (numbers, booleans, times, lists of a known shape) is one NumPy array with a row for each row. Lists of
numbers are `Ragged`. Every other column (texts, bytes, decimals, structs) stays an Arrow array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as kinds

from ..proto.arrow.without_rows import no_values
from ..proto.errors import ExecutionError, InvalidRequest
from .building.row_gathering import Values
from .order.large_columns import plain

Shape: TypeAlias = tuple[int, ...]
Arrays: TypeAlias = Literal["numpy", "torch", "jax", "arrow"]

_ARRAYS: Final = ("numpy", "torch", "jax", "arrow")
_PLAIN: Final = {
    type_.id: np.dtype(type_.to_pandas_dtype())
    for type_ in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64()),
    )
}
"""The types of NumPy whose arrays have the same memory, by the ids of Arrow's."""


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Lists of different lengths: row i has `values[offsets[i]:offsets[i + 1]]`.

    >>> import numpy as np
    >>> tokens = tidegate.training.Ragged(np.array([0, 2, 3]), np.array([5, 6, 7]))
    >>> len(tokens), tokens[0].tolist()
    (2, [5, 6])
    """

    offsets: Any
    values: Any

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Any:
        """The list of a row."""
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def pin_memory(self) -> Ragged:
        """The lists in pinned memory, if they are tensors: PyTorch's `DataLoader(pin_memory=True)` calls it."""
        return Ragged(self.offsets.pin_memory(), self.values.pin_memory())

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))


@dataclass(frozen=True, slots=True)
class Form:
    """The way from a column of the result to a column of batches."""

    name: str
    dense: bool
    shape: Shape | None
    convert: Callable[[Any], Any]
    type_: pa.DataType | None = None

    @property
    def is_array(self) -> bool:
        """True if the user gets the column's NumPy array itself."""
        return self.dense and self.convert is _numpy

    def parts(self, arrays: Sequence[pa.Array], type_: pa.DataType) -> list[Values]:
        """The rows of each array; of an empty one if there is none."""
        arrays = arrays or [no_values(type_)]
        return [_dense(array, self.name, self.shape) for array in arrays] if self.dense else list(arrays)

    def delivered(self, values: Values) -> Any:
        """The rows as the user gets them."""
        if self.dense:
            return self.convert(values)
        if isinstance(values, pa.Array) and is_list_of_numbers(values.type) and self.convert is not _same:
            return _ragged(values, self.name, self.convert)
        return plain(values, self.type_)


def forms(
    schema: pa.Schema,
    columns: Sequence[str] | None,
    shapes: Mapping[str, Sequence[int]],
    arrays: Arrays,
    *,
    pin: bool = False,
) -> tuple[Form, ...]:
    """A form for each column that batches have. Raises `InvalidRequest` for columns that the result does not have, and
    for a result without columns.
    """
    if arrays not in _ARRAYS:
        raise InvalidRequest(f"as_ must be one of {', '.join(_ARRAYS)}, not {arrays!r}", reason="UNKNOWN_OPTION")
    names = schema.names if columns is None else list(columns)
    unknown = sorted({*names, *shapes} - set(schema.names))
    if unknown:
        raise InvalidRequest(
            f"the result has no column {', '.join(unknown)}; it has {', '.join(schema.names)}", reason="NO_SUCH_COLUMN"
        )
    if not names:
        raise InvalidRequest("the result has no columns, so a batch would have none: give the plan at least one")
    if len(set(schema.names)) < len(schema.names):
        raise InvalidRequest(
            f"columns of the result share a name: {', '.join(schema.names)}; give each a name of its own in the plan",
            reason="SAME_COLUMN_NAMES",
        )
    convert = _conversion(arrays, pin=pin)
    return tuple(_form(schema.field(name), shapes.get(name), convert) for name in names)


def dense_forms(names: Sequence[str], arrays: Arrays, *, pin: bool = False) -> tuple[Form, ...]:
    """The forms of columns that the loader makes itself."""
    convert = _arrow if arrays == "arrow" else _conversion(arrays, pin=pin)
    return tuple(Form(name, True, None, convert) for name in names)


def _arrow(values: npt.NDArray[Any]) -> pa.Array:
    if values.ndim == 1:
        return pa.array(values)
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def _form(field: pa.Field, shape: Sequence[int] | None, convert: Callable[[Any], Any]) -> Form:
    if convert is _same:
        return Form(field.name, False, None, convert, field.type)
    sizes = None if shape is None else _checked_shape(field, shape)
    return Form(field.name, sizes is not None or _is_dense(field.type), sizes, convert, field.type)


def _checked_shape(field: pa.Field, shape: Sequence[int]) -> Shape:
    """The shape in Python's numbers. Raises `InvalidRequest` unless the column has lists of values that an array can
    have.
    """
    sizes: list[Any] = [None] if isinstance(shape, str | bytes) or not isinstance(shape, Iterable) else list(shape)
    if any(not isinstance(size, Integral) or isinstance(size, bool) or size < 0 for size in sizes):
        raise InvalidRequest(
            f"the shape of column {field.name!r} must be a list of whole numbers from 0 on, as in "
            f"shapes={{{field.name!r}: (2048,)}}, not {shape!r}",
            reason="WRONG_SHAPE",
        )
    if not _is_list(field.type):
        raise InvalidRequest(f"column {field.name!r} has a shape, but is no list: {field.type}", reason="WRONG_SHAPE")
    if not _is_dense(field.type.value_type):
        raise InvalidRequest(
            f"column {field.name!r} has a shape, but its lists have no numbers: {field.type}", reason="WRONG_SHAPE"
        )
    return tuple(map(int, sizes))


def _conversion(arrays: Arrays, *, pin: bool) -> Callable[[Any], Any]:
    match arrays:
        case "numpy":
            return _numpy
        case "arrow":
            return _same
        case "torch":
            import torch

            return lambda values: _torch(values, torch, pin=pin)
        case "jax":
            import jax.numpy

            return lambda values: values if values.dtype.kind in "mM" else jax.numpy.asarray(values)


def _same(values: Any) -> Any:
    return values


def _numpy(values: Any) -> Any:
    return values


def _torch(values: npt.NDArray[Any], torch: Any, *, pin: bool) -> Any:
    """A tensor over the same memory, or with `pin` a copy in pinned memory. Memory of the engine is copied, because
    tensors can be written to.
    """
    if values.dtype.kind in "mM":
        return values
    tensor = torch.from_numpy(values if values.flags.writeable else values.copy())
    return tensor.pin_memory() if pin else tensor


def _is_number(type_: pa.DataType) -> bool:
    return bool(kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_boolean(type_))


def _is_dense(type_: pa.DataType) -> bool:
    if kinds.is_fixed_size_list(type_):
        return _is_dense(type_.value_type)
    return _is_number(type_) or bool(kinds.is_timestamp(type_) or kinds.is_date(type_) or kinds.is_duration(type_))


def _is_list(type_: pa.DataType) -> bool:
    return bool(kinds.is_list(type_) or kinds.is_large_list(type_) or kinds.is_fixed_size_list(type_))


def is_list_of_numbers(type_: pa.DataType) -> bool:
    """True for lists of different lengths that `Ragged` can have."""
    return bool((kinds.is_list(type_) or kinds.is_large_list(type_)) and _is_number(type_.value_type))


def _dense(array: pa.Array, name: str, shape: Shape | None) -> npt.NDArray[Any]:
    """The array's values. Shares its memory where the layout is NumPy's."""
    type_ = array.type
    if array.null_count and not (kinds.is_floating(type_) and shape is None):
        raise ExecutionError(
            f"column {name!r} has {array.null_count} nulls, and its arrays have no value for them: filter them out or "
            "use coalesce in the plan, or take the column as_='arrow'",
            reason="NULLS_IN_BATCH",
        )
    if kinds.is_fixed_size_list(type_):
        inner = _dense(array.flatten(), name, None)
        flat = inner.reshape(len(array), type_.list_size, *inner.shape[1:])
        return flat if shape is None else _shaped(flat.reshape(len(array), -1), name, shape)
    if shape is not None:
        return _of_shape(array, name, shape)
    plain = _PLAIN.get(type_.id)
    buffer = None if plain is None or array.null_count else array.buffers()[1]
    if buffer is None:
        values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
        return values
    # As `to_numpy`, which gives up the interpreter's lock, and waits for other threads to get it again.
    numbers = np.frombuffer(buffer, plain, len(array), array.offset * type_.byte_width)
    numbers.flags.writeable = False
    return numbers


def _of_shape(array: pa.Array, name: str, shape: Shape) -> npt.NDArray[Any]:
    """Lists that all have as many values as the shape."""
    lengths = np.diff(array.offsets.to_numpy())
    size = math.prod(shape)
    wrong = np.flatnonzero(lengths != size)
    if len(wrong):
        raise ExecutionError(
            f"column {name!r} has a list of {lengths[wrong[0]]} values; its shape {shape} has {size}",
            reason="WRONG_SHAPE",
        )
    return _shaped(_dense(array.flatten(), name, None).reshape(len(array), size), name, shape)


def _shaped(rows: npt.NDArray[Any], name: str, shape: Shape) -> npt.NDArray[Any]:
    if rows.shape[1] != math.prod(shape):
        raise ExecutionError(
            f"column {name!r} has {rows.shape[1]} values a row; its shape is {shape}", reason="WRONG_SHAPE"
        )
    return rows.reshape(len(rows), *shape)


def _ragged(lists: pa.Array, name: str, convert: Callable[[Any], Any]) -> Ragged:
    if lists.null_count:
        _dense(lists, name, ())
    offsets = lists.offsets.to_numpy()
    values = _dense(lists.values.slice(offsets[0], offsets[-1] - offsets[0]), name, None)
    return Ragged(convert(offsets.astype(np.int64) - offsets[0]), convert(values))
