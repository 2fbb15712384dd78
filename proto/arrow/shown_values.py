"""Values as messages and tables show them: as Python writes them, and as Arrow does where Python has no such value.

Python has no nanoseconds, and no moments beyond the year 9999.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa


def shown(value: pa.Scalar, write: Callable[[object], str] = repr) -> str:
    """The value as `write` writes its Python value."""
    try:
        return write(value.as_py())
    except (OverflowError, ValueError):
        return _by_parts(value)


def _by_parts(value: pa.Scalar) -> str:
    match value:
        case pa.StructScalar():
            return shown_names({field.name: value[at] for at, field in enumerate(value.type)})
        case pa.ListScalar():
            return f"[{', '.join(map(shown, value.values))}]"
        case _:
            return str(pa.repeat(value, 1).to_string(skip_new_lines=True))[1:-1]


def shown_row(values: Sequence[pa.Scalar]) -> str:
    """A row's values as a tuple."""
    texts = ", ".join(map(shown, values))
    return f"({texts},)" if len(values) == 1 else f"({texts})"


def shown_names(values: Mapping[str, pa.Scalar]) -> str:
    """A row's values as a dictionary by their columns' names."""
    return "{" + ", ".join(f"{name!r}: {shown(value)}" for name, value in values.items()) + "}"
