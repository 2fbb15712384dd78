"""The functions of statements that DuckDB does not have, or cannot interrupt, in Python. `PYTHON_FUNCTIONS` lists
them. `MadeBytes` counts the bytes of long values.
"""

from __future__ import annotations

from typing import Final

from .decimal_arithmetic import DECIMAL_ARITHMETIC, decimal_arithmetic
from .edit_distance import EDIT_DISTANCE, EDIT_DISTANCE_STEPS, edit_distance
from .like import LIKE, LIKE_STEPS, like
from .look_around import LOOK_AROUND, look_around
from .made_bytes import WIDE_FROM, WIDE_OUTPUT, WIDE_ROWS, MadeBytes
from .pattern_search import GIVEN
from .python_function import PythonFunction
from .re2_cost import ROW_STEPS, SHARED, SHARED_STEPS, shared
from .regular_expression import REGULAR_EXPRESSION, regular_expression
from .sha2 import SHA2, sha2

__all__ = [
    "DECIMAL_ARITHMETIC",
    "EDIT_DISTANCE",
    "EDIT_DISTANCE_STEPS",
    "GIVEN",
    "LIKE",
    "LIKE_STEPS",
    "LOOK_AROUND",
    "PYTHON_FUNCTIONS",
    "REGULAR_EXPRESSION",
    "ROW_STEPS",
    "SHA2",
    "SHARED",
    "SHARED_STEPS",
    "WIDE_FROM",
    "WIDE_OUTPUT",
    "WIDE_ROWS",
    "MadeBytes",
    "PythonFunction",
    "shared",
]

PYTHON_FUNCTIONS: Final = (
    PythonFunction(LOOK_AROUND, ("VARCHAR",) * 4, "VARCHAR[]", look_around),
    PythonFunction(SHA2, ("VARCHAR", "BLOB"), "BLOB", sha2),
    PythonFunction(EDIT_DISTANCE, ("VARCHAR", "VARCHAR"), "BIGINT", edit_distance),
    PythonFunction(DECIMAL_ARITHMETIC, ("VARCHAR",) * 4, "VARCHAR", decimal_arithmetic),
    PythonFunction(LIKE, ("VARCHAR",) * 3, "BOOLEAN", like),
    PythonFunction(REGULAR_EXPRESSION, ("VARCHAR",) * 4, "VARCHAR[]", regular_expression, asks=True),
)
