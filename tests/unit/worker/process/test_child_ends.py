"""The lines of Celery's that a child's end leads to."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from billiard.exceptions import WorkerLostError

from worker.process.lease import EXIT_CALLED_OFF, EXIT_NOT_READY, OWN_EXITS
from worker.queues.child_ends import LOGGER, ChildEnds


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger, only = logging.getLogger(LOGGER), ChildEnds(OWN_EXITS)
    logger.addFilter(only)
    yield logger
    logger.removeFilter(only)


def told(logger: logging.Logger, caplog: pytest.LogCaptureFixture, error: Exception) -> list[logging.LogRecord]:
    """What becomes of the line that Celery logs of such an error."""
    caplog.clear()
    try:
        raise error
    except Exception as raised:
        logger.error("Task handler raised error: %r", raised, exc_info=True)
    return caplog.records


@pytest.mark.parametrize("code", [EXIT_CALLED_OFF, EXIT_NOT_READY])
def test_an_end_of_its_own_is_told_once(logger: logging.Logger, caplog: pytest.LogCaptureFixture, code: int) -> None:
    assert not told(logger, caplog, WorkerLostError(f"Worker exited prematurely: exitcode {code} Job: 20."))


@pytest.mark.parametrize("how", ["signal 9 (SIGKILL)", "exitcode 1"])
def test_another_is_told_without_the_pool_s_traceback(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    (record,) = told(logger, caplog, WorkerLostError(f"Worker exited prematurely: {how} Job: 64."))
    assert how in record.getMessage() and record.exc_info is None


def test_other_errors_stay_as_they_are(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    (record,) = told(logger, caplog, ValueError("exitcode 64"))
    assert record.exc_info is not None
