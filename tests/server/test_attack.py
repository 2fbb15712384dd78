"""Requests that are made up are answered; `make attack` sends many more."""

from __future__ import annotations

import logging

import pytest

from .attack import attack
from .attack_plans import attack_plans


def test_plans_that_were_damaged_meet_no_bug_and_some_of_them_still_run(caplog: pytest.LogCaptureFixture) -> None:
    findings = attack_plans(120, seed=1)
    assert findings.bugs == []
    assert findings.ends["ok"] >= 20
    assert len(findings.ends) >= 10
    assert findings.memory[-1] > 0
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_requests_that_are_made_up_meet_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    findings = attack(300, seed=1)
    assert findings.bugs == []
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND"} <= set(findings.ends)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
