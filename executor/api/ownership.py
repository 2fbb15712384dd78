"""Marks in a task's id: the principal that owns the task, and the run of the service that made it.

A task's id says both. Its random digits begin with the digits of the run, so a service that has restarted can tell a
task that ended with the previous run from a task that never was. After them come a few digits of a digest of the random
digits and the principal's name. Ownership therefore lasts as long as the id is known, also in checkpoints, which
outlive the task and the service, and the service stores nothing for it. No secret protects the id, because the service
knows the caller from elsewhere: no caller can pass as the owner of an id, and a made-up id belongs to no task.
"""

from __future__ import annotations

import hashlib
import secrets
from contextvars import ContextVar
from typing import Final

_RUN_DIGITS: Final = 8
_RANDOM_DIGITS: Final = 32
"""Random digits of an id, including the digits of the run. 96 bits of them are the id's own."""
_OWNER_BYTES: Final = 8
_DIGITS: Final = frozenset("0123456789abcdef")

_caller: ContextVar[str] = ContextVar("tidegate-principal")


def act_for(principal: str) -> None:
    """Make the current context act for `principal` in all its later calls of a service."""
    _caller.set(principal)


def acts_for() -> str:
    """The principal that the current context acts for; an empty name if it acts for none."""
    return _caller.get("")


class Ownership:
    """The ownership rules of a service.

    With `principals`, each call has to come from a context that acts for one. Without them, everything belongs to every
    caller.
    """

    def __init__(self, principals: bool) -> None:
        self._principals = principals
        self._run = secrets.token_hex(_RUN_DIGITS // 2)

    @property
    def caller(self) -> str:
        """The principal that calls; an empty name if the service has no principals."""
        return _caller.get() if self._principals else ""

    def new_identity(self) -> str:
        """An unguessable id for something that belongs to the caller."""
        digits = self._run + secrets.token_hex((_RANDOM_DIGITS - _RUN_DIGITS) // 2)
        return digits + _owner(digits, self.caller) if self._principals else digits

    def has(self, identity: str) -> bool:
        """True if the id is one of the caller's, whether or not anything has this id."""
        digits, owner = identity[:_RANDOM_DIGITS], identity[_RANDOM_DIGITS:]
        return not self._principals or owner == _owner(digits, self.caller)

    def is_of_another_run(self, identity: str) -> bool:
        """True if another run of a service made the id, whether or not anything ever had it."""
        length = _RANDOM_DIGITS + 2 * _OWNER_BYTES * self._principals
        known = len(identity) == length and _DIGITS.issuperset(identity)
        return known and not identity.startswith(self._run)


def _owner(digits: str, principal: str) -> str:
    return hashlib.blake2b(f"{digits} {principal}".encode(), digest_size=_OWNER_BYTES).hexdigest()
