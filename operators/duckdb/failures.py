"""DuckDB's errors as Tidegate's errors: one line, no SQL, no traceback.

While a result is read lazily DuckDB's errors arrive through Arrow as `OSError` with the same text. So the text's first
words tell the kind of error, not the class.
"""

from __future__ import annotations

import re
import threading
from typing import Final

import duckdb
import pyarrow as pa

from ...proto.errors import ExecutionError, InternalError, TidegateError
from ..core.interrupts import interrupted

_SIGNAL: Final = re.compile(r"\A(Query interrupted|.*\bKeyboardInterrupt:?)\s*\Z", re.DOTALL)
"""DuckDB's words where a signal's handler has raised, in DuckDB or in the code of a stream: the exception is lost."""
ENGINE_ERRORS: Final = (duckdb.Error, pa.ArrowException, OSError, UnicodeDecodeError)
"""Some of DuckDB's messages have one byte of a longer character. Python cannot read them: it raises
`UnicodeDecodeError` with the message's bytes in place of DuckDB's error.
"""

_HINT = re.compile(
    r"\s*(\. Use TRY\(|, or SET |; SET |Possible solutions?:|Candidate functions:|\bLINE \d+:|Detail: Python "
    r"|\bStack Trace:).*",
    re.DOTALL,
)
#: DuckDB's words for columns of the statement, whose names are not the plan's.
_POSITIONAL = re.compile(r" (when casting from source column|in expression) .*\bc\d+\b.*$")
#: A text that statements put in quotation marks, so that no cast reads it: plans of some producers do not read it.
_MARKED = re.compile(r"(convert string )'\"(.*)\"'", re.DOTALL)
#: DuckDB's words for a number that is cast to a decimal without room for it.
_NO_ROOM: Final = re.compile(
    r"(?:Casting value|Could not cast value) \"?([-+.\w]+)\"? to (?:type )?DECIMAL\((\d+),(\d+)\)"
    r"(?: failed: value is out of range)?.*",
    re.DOTALL,
)
_KIND = re.compile(r"^([A-Za-z ]+?) Error: ")
#: DuckDB's words where a row's value fails in a function that DuckDB takes for one that cannot fail.
_UNEXPECTED: Final = re.compile(r"is not marked as fallible - .*? Error: (.*)$", re.MULTILINE)
#: DuckDB's words where a subquery for one value, which a single join is in SQL, has several rows.
_SEVERAL_ROWS: Final = "More than one row returned by a subquery"
_INTERNAL: Final = frozenset({"INTERNAL", "FATAL", "Binder", "Parser", "Catalog"})
"""What only a wrong statement, or DuckDB itself, can cause. A `Syntax` error is LIKE's, of a row's pattern."""
#: Kinds of errors that a bad file can cause, so that it is worth finding that file. DuckDB has no kind of its own for a
#: damaged page header.
_FILE_KINDS: Final = frozenset(
    {"IO", "Invalid Input", "Serialization", "Conversion", "Permission", "HTTP", "Out of Range", "Invalid", ""}
)

#: Parts of DuckDB's messages about spilling: the beginning of its files' names, and what it says of its folder alone.
_SPILLING: Final = ("duckdb_temp_", "Failed to create directory")


def text_of(error: BaseException) -> str:
    """DuckDB's message, with U+FFFD for bytes that are no characters."""
    message = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else ""
    return message if _KIND.match(message) else str(error)


def kind_of(error: BaseException) -> str:
    """DuckDB's own word for the error: `Conversion`, `IO`, `Out of Memory`, ..."""
    matched = _KIND.match(text_of(error))
    return matched[1] if matched else ""


def may_be_a_file(error: BaseException) -> bool:
    return kind_of(error) in _FILE_KINDS and not is_of_spilling(error)


def is_of_spilling(error: BaseException) -> bool:
    """True where DuckDB could not make its temp folder, or write or read a file there."""
    return kind_of(error) == "IO" and any(words in text_of(error) for words in _SPILLING)


def is_interrupt(error: BaseException) -> bool:
    return isinstance(error, duckdb.InterruptException) or kind_of(error) == "INTERRUPT"


def is_of_signal(error: BaseException) -> bool:
    """True where a signal, such as that of Ctrl-C, has interrupted DuckDB, if nobody else has. Only the main thread has
    signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    return is_interrupt(error) or _SIGNAL.match(text_of(error)) is not None


def is_fatal(error: BaseException) -> bool:
    """True where the DuckDB instance must not be used again."""
    return kind_of(error) in ("INTERNAL", "FATAL")


def translate(error: BaseException, plan_path: str, memory_limit: int, text: str | None = None) -> TidegateError:
    """`error` as a Tidegate error, perhaps with another `text`. `plan_path` is the plan path of the statement."""
    kind = kind_of(error)
    if is_interrupt(error):
        return interrupted(plan_path)
    if kind == "Out of Memory":
        return out_of_memory(plan_path, memory_limit)
    if is_of_spilling(error):  # without the file, whose path is the server's
        cause = sentence(text_of(error)).rpartition(": ")[2]
        return ExecutionError(_at(plan_path, f"spilling to disk failed: {cause}"), reason="SPILL_FAILED")
    if (unexpected := _UNEXPECTED.search(text_of(error))) is not None:
        return ExecutionError(_at(plan_path, sentence(unexpected[1])))
    if _SEVERAL_ROWS in text_of(error):
        several = (
            "a subquery for one value, or a single join, finds more than one row, and must find at most one: aggregate "
            "the rows that it reads"
        )
        return ExecutionError(_at(plan_path, several), reason="MORE_THAN_ONE_ROW")
    cause = sentence(text_of(error) if text is None else text)
    if kind in _INTERNAL or (isinstance(error, UnicodeDecodeError) and not kind):  # not kind: no message of DuckDB
        return InternalError(_at(plan_path, f"DuckDB refused the fragment: {cause}"))
    return ExecutionError(_at(plan_path, cause))


def out_of_memory(plan_path: str, memory_limit: int) -> ExecutionError:
    limit = f"{memory_limit / (1 << 20):.0f} MiB"
    return ExecutionError(
        _at(
            plan_path,
            f"needs more than its memory limit of {limit} and its spill space: raise memory_limit or spill_quota",
        ),
        reason="MEMORY_LIMIT",
    )


def sentence(text: str) -> str:
    """The text of one of DuckDB's errors as one line, without its kind, its hints and the statement."""
    text = _MARKED.sub(r"\1'\2'", _HINT.sub("", _KIND.sub("", text, count=1)))
    text = _NO_ROOM.sub(r"\1 does not fit decimal<\2,\3>", text)
    return _POSITIONAL.sub("", " ".join(text.split())).rstrip("!.")


def _at(plan_path: str, sentence: str) -> str:
    return f"{plan_path}: {sentence}" if plan_path else sentence


def follows_error(exit_: GeneratorExit) -> bool:
    """True where the output is closed because of an error, not because no more rows are wanted."""
    cause: BaseException | None = exit_
    while isinstance(cause, GeneratorExit):
        cause = cause.__context__
    return cause is not None
