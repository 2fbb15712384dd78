"""Functions of Tidegate's own extensions, which the official extensions lack and producers write, in families."""

from __future__ import annotations

from typing import Final

from ..use import Table
from . import (
    calendar_additions,
    event_time_additions,
    list_additions,
    moment_additions,
    number_additions,
    pattern_additions,
    read_text_additions,
    statistic_additions,
    text_additions,
)

SCALAR: Final[Table] = {
    **text_additions.TABLE,
    **read_text_additions.TABLE,
    **number_additions.TABLE,
    **pattern_additions.TABLE,
    **moment_additions.TABLE,
    **list_additions.TABLE,
    **event_time_additions.TABLE,
    **calendar_additions.TABLE,
}
AGGREGATE: Final[Table] = statistic_additions.TABLE
