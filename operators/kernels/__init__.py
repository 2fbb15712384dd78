"""Filters, projects and groups small inputs with Arrow's and NumPy's kernels, without DuckDB.

What a statement costs before it has seen a row is many times what a thousand rows take. Kernels answer with the rows
that DuckDB would give, bit for bit, or decline: where a sum or a product overflows, where NaN is compared, DuckDB is
asked, which has an answer or an error for it.
"""

from .groups import Grouped
from .kernel_expressions import Apply, Column, Constant, Expression, Function
from .kernel_rows import Filtered, Projected
from .small import SMALL_ROWS, Kernels, Step

__all__ = [
    "SMALL_ROWS",
    "Apply",
    "Column",
    "Constant",
    "Expression",
    "Filtered",
    "Function",
    "Grouped",
    "Kernels",
    "Projected",
    "Step",
]
