"""The document of an explanation as a type, and words that its renderers share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

Document: TypeAlias = Mapping[str, Any]
ENDS: Final = "ends the pipeline"


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
