"""A file of principals and their tokens, which says who may call.

::

    # a principal on each line, and its token or the SHA-256 of that
    alice  sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    loader 3b1f2c5e8a7d4e0f9c6b5a4d3e2f1a0b

A principal may have several lines, so that you can give out a new token before you remove the old one. The server reads
the file again after a change, for later calls.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...proto.errors import InvalidRequest

LEAST_TOKEN: Final = 20
"""The least characters of a token. So many hexadecimal digits cannot be found by trying."""

LARGEST_FILE: Final = 1 << 20
"""The most bytes of a file of tokens. The server reads the file between two calls."""

_LOOK_SECONDS: Final = 1.0
_PRINCIPAL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,99}")
_DIGEST: Final = re.compile(r"sha256:([0-9a-fA-F]{64})")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")

log = logging.getLogger("tidegate.server")


@dataclass(frozen=True, slots=True)
class _Entry:
    principal: str
    digest: bytes


class Tokens:
    """The tokens in the file at `path`. The constructor raises `InvalidRequest` if the file is not valid.

    A file that becomes invalid later changes nothing, and the log says so.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._version = _version(path)
        self._entries = _read(path)
        self._looked = time.monotonic()

    def principal(self, token: str) -> str | None:
        """The principal of a token; None for an unknown one. A nearly correct token takes as long as any other."""
        self._look()
        digest = hashlib.sha256(token.encode()).digest()
        name = None
        for entry in self._entries:
            if hmac.compare_digest(entry.digest, digest):
                name = entry.principal
        return name

    def _look(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._looked < _LOOK_SECONDS:
                return
            self._looked = now
            try:
                version = _version(self._path)
                if version == self._version:
                    return
                self._version = version
                self._entries = _read(self._path)
            except InvalidRequest as error:
                log.error("the server keeps the previous tokens: %s", error)
            else:
                log.info("the server has read the new tokens of %s", self._path)


def _version(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError as error:
        raise _unreadable(path, error) from error
    return status.st_mtime_ns, status.st_size, status.st_ino


def _read(path: Path) -> Sequence[_Entry]:
    text, mode = _text(path)
    entries: list[_Entry] = []
    principals: dict[bytes, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and not words[0].startswith("#"):
            where = f"{path}, line {number}"
            entry = _entry(words, where, mode)
            if principals.setdefault(entry.digest, entry.principal) != entry.principal:
                message = f"{where}: another principal has the same token: give each principal a token of its own"
                raise InvalidRequest(message, reason="BAD_TOKENS")
            entries.append(entry)
    if not entries:
        raise InvalidRequest(
            f"{path} has no tokens: write a line for each principal, with its name and its token", reason="BAD_TOKENS"
        )
    if mode & 0o022:
        raise InvalidRequest(
            f"users other than its owner may write {path}, and could add their own tokens: chmod 600",
            reason="BAD_TOKENS",
        )
    return entries


def _text(path: Path) -> tuple[str, int]:
    """The text of the file, and its permissions. Opening a pipe without a writer would wait for one."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidRequest(f"the tokens cannot be read: {path} is not a plain file", reason="BAD_TOKENS")
            if status.st_size > LARGEST_FILE:
                message = f"{path} has {status.st_size:,} bytes; at most {LARGEST_FILE:,} are allowed"
                raise InvalidRequest(message, reason="BAD_TOKENS")
            return file.read(LARGEST_FILE), stat.S_IMODE(status.st_mode)
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error


def _entry(words: Sequence[str], where: str, mode: int) -> _Entry:
    """The entry of a line. No message quotes the line, because any word of it may be a token."""
    if len(words) != 2:
        raise InvalidRequest(
            f"{where}: a line must have two words, a principal and its token (or sha256:DIGEST), not {len(words)}",
            reason="BAD_TOKENS",
        )
    principal, token = words
    if not _PRINCIPAL.fullmatch(principal):
        raise InvalidRequest(
            f"{where}: a principal must be 1 to 100 letters, digits and . _ @ -, and begin with a letter or digit",
            reason="BAD_TOKENS",
        )
    if (digest := _DIGEST.fullmatch(token)) is not None:
        return _Entry(principal, bytes.fromhex(digest[1]))
    if token.startswith("sha256:"):
        raise InvalidRequest(f"{where}: 64 hexadecimal digits must follow sha256:", reason="BAD_TOKENS")
    if len(token) < LEAST_TOKEN or not _TOKEN.fullmatch(token):
        raise InvalidRequest(
            f"{where}: a token must have at least {LEAST_TOKEN} ASCII characters; `openssl rand -hex 32` makes one",
            reason="BAD_TOKENS",
        )
    if mode & 0o004:
        raise InvalidRequest(
            f"{where}: everybody on this machine may read the token: chmod 600, or write its SHA-256 instead",
            reason="BAD_TOKENS",
        )
    return _Entry(principal, hashlib.sha256(token.encode()).digest())


def _unreadable(path: Path, error: OSError | UnicodeDecodeError) -> InvalidRequest:
    why = error.strerror if isinstance(error, OSError) else "the file is not UTF-8 text"
    return InvalidRequest(f"the tokens cannot be read: {path}: {why}", reason="BAD_TOKENS")
