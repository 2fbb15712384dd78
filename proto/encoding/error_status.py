"""Errors as a gRPC status and back, so that both sides raise the same ones.

Every gRPC client sees the status code and its sentence. Metadata carries the rest: `tidegate-error` is the class in
`proto.errors`, then come `tidegate-reason`, `tidegate-epoch`, and `tidegate-problems-bin`, a plan's problems as a
`ValidateResponse`. gRPC refuses large metadata, so long texts and lists are cut there and say so; `Validate` returns
every problem that has a place, and cuts texts only beyond 4,000 characters. `tidegate-traceback-bin` is the traceback
of user code: its last lines where it is long. The server's log has the whole traceback.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .. import errors
from ..tidegate.v1 import plans_pb2 as plans
from . import plan_answers

ERROR: Final = "tidegate-error"
REASON: Final = "tidegate-reason"
EPOCH: Final = "tidegate-epoch"
PROBLEMS: Final = "tidegate-problems-bin"
TRACEBACK: Final = "tidegate-traceback-bin"

COUNTED: Final = "TOO_MANY_PROBLEMS"
"""The reason of the problem that has the number of those that nobody lists."""

# gRPC gives up on headers beyond 8 KiB; the sentence is percent-encoded there (up to three bytes for one).
SENTENCE_BYTES: Final = 1_200
PROBLEMS_BYTES: Final = 2_400
TRACEBACK_BYTES: Final = 2_400

_CLASSES: Final = {class_.__name__: class_ for class_ in errors.STATUS}
_BY_STATUS: Final[Mapping[str, type[errors.TidegateError]]] = {
    "INVALID_ARGUMENT": errors.InvalidRequest,
    "NOT_FOUND": errors.NotFound,
    "FAILED_PRECONDITION": errors.Refused,
    "OUT_OF_RANGE": errors.OutOfRange,
    "RESOURCE_EXHAUSTED": errors.Exhausted,
    "PERMISSION_DENIED": errors.Forbidden,
    "UNAUTHENTICATED": errors.Unauthenticated,
    "UNIMPLEMENTED": errors.InvalidRequest,
    "UNAVAILABLE": errors.Unavailable,
    "DEADLINE_EXCEEDED": errors.Unavailable,
    "CANCELLED": errors.Unavailable,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as it travels."""

    status: str
    sentence: str
    metadata: tuple[tuple[str, str | bytes], ...]


def failure(error: errors.TidegateError) -> Failure:
    known = next(class_ for class_ in type(error).__mro__ if class_ in errors.STATUS)
    metadata: list[tuple[str, str | bytes]] = [(ERROR, known.__name__), (REASON, error.reason)]
    if isinstance(error, errors.EpochError):
        metadata.append((EPOCH, str(error.epoch)))
    if isinstance(error, errors.PlanError):
        metadata.append((PROBLEMS, _problems_bytes(error.problems)))
    sentence, start, frames = error.message.partition(errors.TRACEBACK)
    if start:
        metadata.append((TRACEBACK, _last_of(f"{start}{frames}")))
    return Failure(status=errors.STATUS[known], sentence=_cut(sentence, SENTENCE_BYTES), metadata=tuple(metadata))


def is_ours(metadata: Iterable[tuple[str, str | bytes]]) -> bool:
    """True where the error is from a Tidegate server, and not from gRPC or a proxy."""
    return any(key == ERROR for key, _ in metadata)


def error(status: str, sentence: str, metadata: Iterable[tuple[str, str | bytes]]) -> errors.TidegateError:
    """The error that a server raised. An error of gRPC itself or of a proxy gets the class that its status has."""
    said = dict(metadata)
    sentence += _text(said.get(TRACEBACK, b""))
    kind = _CLASSES.get(_text(said.get(ERROR, "")))
    if kind is None:
        return _BY_STATUS.get(status, errors.InternalError)(sentence or status, reason=status)
    if kind is errors.PlanError:
        return errors.PlanError(*_problems(said.get(PROBLEMS, b""), sentence, _text(said[REASON])))
    if kind is errors.EpochError:
        return errors.EpochError(sentence, epoch=int(_text(said[EPOCH])), reason=_text(said[REASON]))
    return kind(sentence, reason=_text(said[REASON]))


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def _cut(sentence: str, size: int) -> str:
    encoded = sentence.encode(errors="backslashreplace")
    if len(encoded) <= size:
        return encoded.decode()
    return encoded[: size - 4].decode(errors="ignore") + " ..."


def _last_of(trace: str) -> bytes:
    encoded = trace.encode(errors="backslashreplace")
    if len(encoded) <= TRACEBACK_BYTES:
        return encoded
    return errors.TRACEBACK.encode() + b"\n  ...\n" + encoded[-TRACEBACK_BYTES:].partition(b"\n")[2]


def _problems_bytes(problems: Sequence[errors.Problem]) -> bytes:
    """The problems that fit: the first one and the number of those that were only counted always. A warning tells how
    many are left out.
    """
    short = [errors.Problem(place=_cut(p.place, 400), reason=p.reason, message=_cut(p.message, 800)) for p in problems]
    listed = [problem for problem in short if problem.reason != COUNTED]
    counted = [problem for problem in short if problem.reason == COUNTED]
    fitting = len(listed)
    while True:
        left = len(listed) - fitting
        note = [f"{left} more problems: Validate lists them"] if left else []
        encoded = plan_answers.validation_message([*listed[:fitting], *counted], note).SerializeToString()
        if len(encoded) <= PROBLEMS_BYTES or fitting <= 1:
            return encoded
        fitting = max(1, min(fitting - 1, fitting * PROBLEMS_BYTES // len(encoded)))


def _problems(data: str | bytes, sentence: str, reason: str) -> list[errors.Problem]:
    message = plans.ValidateResponse.FromString(data if isinstance(data, bytes) else b"")
    more = [errors.Problem(place="", reason="MORE_PROBLEMS", message=warning) for warning in message.warnings]
    return [*plan_answers.problems_value(message), *more] or [errors.Problem(place="", reason=reason, message=sentence)]
