"""The program of a worker."""

from __future__ import annotations

from typing import Any

import pytest
from celery.bin.worker import worker

from worker.process import main as program


@pytest.mark.parametrize("status", [0, 1])
def test_whoever_started_it_learns_that_it_did_not_end_as_asked(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nobody starts it again who does so after a failure."""

    def run(*_: Any, **__: Any) -> int:
        return status

    for name in ("MATMUL_DEVICE", "MATMUL_BENCH_QUEUE"):  # which it sets
        monkeypatch.setenv(name, "")
    for name in ("configure_logs", "claim_layout"):
        monkeypatch.setattr(program, name, lambda _: None)
    monkeypatch.setattr(worker, "main", run)
    assert program.main(["--device", "cpu"]) == status
