"""Enough of the Dockerfile format to run what an image would run."""

from __future__ import annotations

import json
import re
from pathlib import Path


class Dockerfile:
    """The last stage's instructions; commands must be in exec form (JSON), as a shell would hide signals."""

    def __init__(self, path: Path) -> None:
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
        lines = [line for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line.strip()]
        start = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
        self.instructions = [tuple(line.split(None, 1)) for line in lines[start:]]

    def last(self, instruction: str) -> str:
        return self.all(instruction)[-1]

    def all(self, instruction: str) -> list[str]:
        return [value for name, value in self.instructions if name == instruction]

    @property
    def labels(self) -> dict[str, str]:
        return {
            name: value
            for instruction in self.all("LABEL")
            for name, value in re.findall(r'(\S+?)="([^"]*)"', instruction)
        }

    @property
    def volumes(self) -> list[str]:
        return list(json.loads(self.last("VOLUME")))

    @property
    def command(self) -> list[str]:
        """ENTRYPOINT and CMD: what a container starts."""
        return [*json.loads(self.last("ENTRYPOINT")), *json.loads(self.last("CMD"))]

    @property
    def health_command(self) -> list[str]:
        return list(json.loads(self.last("HEALTHCHECK").partition("CMD ")[2]))
