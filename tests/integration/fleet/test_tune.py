"""`make tune`: whoever asks workers to measure waits until they have."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Thread
from types import SimpleNamespace

import pytest
import redis

from jobs.fleet.registry import WorkerRegistry
from jobs.fleet.workers import WorkerInfo
from jobs.redis.client import connect
from jobs.redis.embedded import EmbeddedServer
from tests.integration.worker.test_spare_time import NAME, Worker, worker
from tests.support.ledger.ledgers import settings_for
from worker.process import tune as tuning
from worker.process.tune import tune

__all__ = ["worker"]  # the fixture


def beat(worker: Worker, client: redis.Redis, prefix: str) -> None:
    now = datetime.now(UTC)
    info = WorkerInfo(
        id="gpu",
        state="ready",
        device=worker.gpu.device,
        queue="gpu",
        kernels=(),
        started_at=now,
        seen_at=now,
        lease_s=60.0,
    )
    WorkerRegistry(client, prefix=prefix).beat(info, 60.0)


def test_whoever_asks_waits_until_all_is_measured(
    valkey: EmbeddedServer, key_prefix: str, worker: Callable[..., Worker], capsys: pytest.CaptureFixture[str]
) -> None:
    one, settings = worker("asked"), settings_for(valkey, key_prefix)
    one.taken()
    one.work()
    with connect(settings) as client:
        beat(one, client, key_prefix)
        assert tune(settings, stuck_s=0.05) == 1, "nobody measures"
        asking = Thread(target=tune, args=(settings,))
        asking.start()
        while asking.is_alive():
            one.spare_time._look_at = 0.0
            one.work()
        assert one.taken() == "fp32_emulated" and not one.shared.is_asked()
    told = capsys.readouterr()
    assert {"1 shapes to measure", "0 shapes to measure"} <= set(told.out.splitlines())
    assert "No shape was measured" in told.err


def test_asking_without_a_worker_is_told(
    valkey: EmbeddedServer, key_prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(settings_for(valkey, key_prefix)) == 1
    assert "No live worker has a GPU" in capsys.readouterr().err


def test_workers_with_other_kernels_than_this_checkout_are_not_taken_for_done(
    valkey: EmbeddedServer,
    key_prefix: str,
    worker: Callable[..., Worker],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, settings = worker("asked"), settings_for(valkey, key_prefix)
    one.taken()
    one.work()
    with connect(settings) as client:
        beat(one, client, key_prefix)
        monkeypatch.setattr(tuning, "measured_model", lambda _: "of this checkout")
        assert tune(settings) == 1
        assert one.shared.to_measure(9) == [NAME]
    assert capsys.readouterr().err == f"{tuning.NONE_LISTED}\n"


def test_shapes_that_are_listed_as_fast_as_others_are_measured_are_progress(
    valkey: EmbeddedServer, key_prefix: str, worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside live traffic."""
    one, settings = worker("asked"), settings_for(valkey, key_prefix)
    one.shared.want(["0"])
    now = [0.0]

    def sleep(_seconds: float) -> None:
        """Half of what is waited for at most; meanwhile one is measured, and another is asked for."""
        number = now[0] / 30
        now[0] += 30
        one.shared.begin(f"{number:.0f}")
        if number < 9:
            one.shared.want([f"{number + 1:.0f}"])

    with connect(settings) as client:
        beat(one, client, key_prefix)
        monkeypatch.setattr(tuning, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
        assert tune(settings, stuck_s=60.0) == 0
    assert now[0] == 300.0
