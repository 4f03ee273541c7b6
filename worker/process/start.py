"""Starts the child with its device, ledger and store; ends the process if that fails."""

from __future__ import annotations

import os
import time
from threading import Event
from typing import NoReturn

import structlog

from jobs.errors import MatmulError
from jobs.matrices.factory import make_matrix_store
from jobs.memory_tuning import tune_memory
from jobs.queue import make_ledger
from jobs.redis.client import connect
from jobs.redis.layout import claim_layout
from jobs.settings import Settings
from jobs.tracing.export import make_tracing
from worker.cpu.runner import CpuRunner
from worker.device.out_of_service import OutOfService
from worker.device.retry import retry_until
from worker.device.runner import Runner
from worker.process.child import Child
from worker.process.ended_child import take_back, worker_id
from worker.process.ends import WORK_TIMEOUT_S
from worker.process.lease import EXIT_NOT_READY
from worker.process.slots_ahead import SlotsAhead

NOT_READY_PAUSE_S = 5.0  # a child that is not ready waits before it ends, so that its successors do not spin

log = structlog.get_logger(__name__)


def make_runner(settings: Settings) -> Runner:
    """The runner for `settings.device`. CuPy is imported only for a GPU."""
    if settings.device == "cpu":
        return CpuRunner(settings)
    from worker.cuda.runner import CudaRunner

    return CudaRunner(settings)


def start(settings: Settings) -> Child:
    """Returns the child, checked for readiness and sending heartbeats. If that fails, ends the process after a
    pause.
    """
    try:
        client = connect(settings)
        claim_layout(settings)
        ledger, store = make_ledger(settings, client), make_matrix_store(settings, client, keeps_maps=True)
        runner = make_runner(settings)
        tracing = make_tracing("worker")
        child = Child(settings, runner, ledger, store, tracing)
        child.prove_ready()
        worker = child.heartbeat.worker_id
        retry_until(lambda: take_back(settings, worker, tracing=tracing), timeout_s=WORK_TIMEOUT_S / 2)
        retry_until(child.heartbeat.start, timeout_s=WORK_TIMEOUT_S / 2)
        child.spare_time.start()
        if runner.device.device_class == "gpu":  # a CPU worker uses matrices in place
            SlotsAhead(store, runner).start()
        tune_memory(Event())  # until the process ends
    except Exception as error:
        _give_up(settings, error)
    return child


def start_quarantined(settings: Settings, reason: str) -> OutOfService:
    """Reports a quarantined worker, instead of starting a child; does not use the device."""
    log.error("this worker takes no jobs until it is started again", reason=reason)
    beats = OutOfService(settings, worker_id(settings.device, os.getppid()), "quarantined", reason)
    beats.start()
    return beats


def _give_up(settings: Settings, error: Exception) -> NoReturn:
    detail = error.detail if isinstance(error, MatmulError) else f"{type(error).__name__}: {error}"
    log.error("this worker is not ready; it tries again with a new process", reason=detail, pause_s=NOT_READY_PAUSE_S)
    OutOfService(settings, worker_id(settings.device, os.getppid()), "unavailable", detail).start()
    time.sleep(NOT_READY_PAUSE_S)
    os._exit(EXIT_NOT_READY)
