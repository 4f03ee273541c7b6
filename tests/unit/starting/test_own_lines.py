"""The service's own log lines look like those of libraries, and go the same way."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog

from jobs.logs import about, configure_logs
from jobs.settings import Settings


@contextmanager
def configured(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, **settings: Any) -> Iterator[None]:
    """Logs to that stream meanwhile."""
    root = logging.getLogger()
    handlers, level, before = root.handlers[:], root.level, structlog.get_config()
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        configure_logs(Settings(**settings))
        yield
    finally:
        root.handlers[:], root.level = handlers, level
        structlog.configure(**before)


def broken() -> None:
    raise OSError("it broke")


def test_both_kinds_of_lines_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with configured(monkeypatch, stream, log_format="json"):
        token = about.set(lambda: {"request_id": "r1"})
        structlog.get_logger("worker.process.ends").warning("multiplied")
        logging.getLogger("library").warning("multiplied")
        about.reset(token)
    own, theirs = map(json.loads, stream.getvalue().splitlines())
    assert list(own) == list(theirs) == ["event", "request_id", "level", "logger", "timestamp"]
    assert (own["logger"], theirs["logger"]) == ("worker.process.ends", "library")
    assert {name: own[name] for name in ("event", "level", "request_id")} == {
        name: theirs[name] for name in ("event", "level", "request_id")
    }


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_an_error_comes_with_its_traceback(monkeypatch: pytest.MonkeyPatch, log_format: str) -> None:
    stream = io.StringIO()
    with configured(monkeypatch, stream, log_format=log_format):
        log = structlog.get_logger("worker.process.child")
        try:
            broken()
        except OSError as error:
            kept = error
            log.exception("a job broke off")
        log.exception("once more", exc_info=kept)
    assert stream.getvalue().count("OSError: it broke") == 2 and "in broken" in stream.getvalue()


def test_a_logger_without_a_name_has_that_of_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with configured(monkeypatch, stream, log_format="json"):
        structlog.get_logger().info("here")
    assert json.loads(stream.getvalue())["logger"] == __name__


def test_what_repeats_itself_and_what_is_below_the_level_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    with configured(monkeypatch, stream, log_format="json", log_level="info"):
        for _ in range(3):
            structlog.get_logger("worker.device.retry").warning("trying again")
            structlog.get_logger("worker.process.child").debug("a detail")
    assert len(stream.getvalue().splitlines()) == 1


def test_a_line_that_cannot_be_written_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    with configured(monkeypatch, Gone(), log_format="json"):
        structlog.get_logger("worker.process.ends").info("multiplied")
    closed = io.StringIO()
    with configured(monkeypatch, closed, log_format="json"):
        closed.close()
        structlog.get_logger("worker.process.ends").info("multiplied")
