"""Whose a task is, where a service tells its callers apart, and which run of a service has made it.

An id says both. Its random digits begin with those of the run, so that a service that has started anew can tell a task
that has ended with the one before from one that never was. Behind them it has a few digits of a digest of these and the
principal's name. So what is somebody's stays so for as long as an id is known, in checkpoints too, which outlive the
task and the service, and nothing has to be kept. No secret protects it, because who calls is known from elsewhere:
nobody can have himself taken for the one that an id belongs to, and an id made up is no task's.
"""

from __future__ import annotations

import hashlib
import secrets
from contextvars import ContextVar
from typing import Final

_RUN_DIGITS: Final = 8
_RANDOM_DIGITS: Final = 32
"""With those of the run: 96 bits of an id are its own."""
_OWNER_BYTES: Final = 8
_DIGITS: Final = frozenset("0123456789abcdef")

_caller: ContextVar[str] = ContextVar("tidegate-principal")


def act_for(principal: str) -> None:
    """What the current context asks of a service from now on, it asks for this principal."""
    _caller.set(principal)


def acts_for() -> str:
    """The principal that the current context acts for; nobody's name where it acts for none."""
    return _caller.get("")


class Ownership:
    """Of a service that has `principals`: each of its calls has to come from a context that acts for one. What a
    service without them has belongs to whoever reaches it.
    """

    def __init__(self, principals: bool) -> None:
        self._principals = principals
        self._run = secrets.token_hex(_RUN_DIGITS // 2)

    @property
    def caller(self) -> str:
        """The principal that calls, and nobody's name where there are none."""
        return _caller.get() if self._principals else ""

    def new_identity(self) -> str:
        """An unguessable id of something that is the caller's."""
        digits = self._run + secrets.token_hex((_RANDOM_DIGITS - _RUN_DIGITS) // 2)
        return digits + _owner(digits, self.caller) if self._principals else digits

    def has(self, identity: str) -> bool:
        """Whether what has this id, if anything has, is the caller's."""
        digits, owner = identity[:_RANDOM_DIGITS], identity[_RANDOM_DIGITS:]
        return not self._principals or owner == _owner(digits, self.caller)

    def is_of_another_run(self, identity: str) -> bool:
        """Whether what has this id, if anything ever had, was made by another run of a service."""
        length = _RANDOM_DIGITS + 2 * _OWNER_BYTES * self._principals
        known = len(identity) == length and _DIGITS.issuperset(identity)
        return known and not identity.startswith(self._run)


def _owner(digits: str, principal: str) -> str:
    return hashlib.blake2b(f"{digits} {principal}".encode(), digest_size=_OWNER_BYTES).hexdigest()
