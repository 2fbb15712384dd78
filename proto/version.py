"""The version of the package that is installed."""

from __future__ import annotations

import importlib.metadata
from typing import Final

__version__: Final = importlib.metadata.version("tidegate")
"""The version, as text.

>>> tidegate.__version__.count(".")
2
"""
