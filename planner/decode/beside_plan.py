"""The knowledge beside a plan that decodes it: the owner's operators, values of parameters, schemas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from ...proto.operator_registration import UserOperators
from .. import ir
from .parameter_values import Given


class Schemas(Protocol):
    """The schemas of sources whose rows are there when the plan is decoded."""

    def table(self, name: str) -> pa.Schema | None: ...

    def files(self, items: Sequence[ir.FileItem]) -> pa.Schema | None: ...


class _NoSchemas:
    def table(self, name: str) -> pa.Schema | None:  # noqa: ARG002 (there is none of any name)
        return None

    def files(self, items: Sequence[ir.FileItem]) -> pa.Schema | None:  # noqa: ARG002 (nor of any files)
        return None


NO_SCHEMAS: Final[Schemas] = _NoSchemas()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """The knowledge beside a plan that decodes it."""

    operators: UserOperators
    parameters: Given
    schemas: Schemas
