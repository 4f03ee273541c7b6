"""A process that waits for Redis says so once in a while, not twice a second."""

from __future__ import annotations

import logging

import pytest

from jobs.logs import Seldom


def line(name: str, message: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, message, None, None)


def test_what_repeats_itself_is_said_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("jobs.logs.time.monotonic", lambda: now)
    seldom, celery = Seldom(), "celery.worker.consumer.consumer"
    away = [line(celery, "Cannot connect to %s"), line("worker.device.retry", {"event": "trying again", "pause_s": 1})]
    assert [seldom.filter(one) for one in (*away, *away)] == [True, True, False, False]
    assert seldom.filter(line(celery, "Connected to %s")), "another message"
    assert all(seldom.filter(line("jobs.ledger", "lost")) for _ in range(3)), "of another part"
    now += 10.0
    assert all(map(seldom.filter, away))
