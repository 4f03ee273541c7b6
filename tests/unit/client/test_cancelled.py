"""The message of Ctrl-C about the job that it cancels: the actual result, not the intention."""

from __future__ import annotations

from typing import Any

import pytest

from matmul_client import Conflict, Unreachable
from matmul_client.cli.settings import cancelled


class PlayedJob:
    id = "job_1"

    def __init__(self, outcome: Exception | None) -> None:
        self._outcome = outcome

    def cancel(self, *, timeout: float) -> None:
        if self._outcome is not None:
            raise self._outcome


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (None, "Done."),
        (Conflict("It has ended.", code="wrong_state", status=409), "It had just ended."),
        (Unreachable("Nobody is there."), "may go on: Nobody is there. Later: matmul jobs cancel job_1"),
    ],
)
def test_it_says_what_came_of_it(outcome: Exception | None, words: str) -> None:
    job: Any = PlayedJob(outcome)
    assert cancelled(job, timeout=1, done="Done.").endswith(words)
