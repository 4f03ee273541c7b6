"""The Celery hooks of a worker: what a child does at its start, for each message, and at its end."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import structlog
from billiard import pool
from celery import shared_task, signals
from celery.exceptions import SoftTimeLimitExceeded

from jobs.errors import MatmulError
from jobs.logs import configure_logs
from jobs.queue import RUN_TASK, is_bench_queue
from jobs.settings import get_settings
from worker.device.out_of_service import QUARANTINED, OutOfService
from worker.process.child import Child
from worker.process.signs_of_life import signs_of_life
from worker.process.start import start, start_quarantined
from worker.queues.stopping import ends_if_worker_stops, worker_stops

log = structlog.get_logger(__name__)

_child: list[Child] = []  # this process's, once it has started; none in the parent
_out_of_service: list[OutOfService] = []  # instead of one


@shared_task(name=RUN_TASK, ignore_result=True, bind=True)  # type: ignore[untyped-decorator]  # Celery has no types
def run(task: Any, job_id: str, attempt: int) -> None:
    queue: str = task.request.delivery_info["routing_key"]
    if not _child:
        log.info("a message came to a worker that takes no jobs; the sweeper sends it again", job=job_id)
        return
    child, (_, limit_s) = _child[0], task.request.timelimit
    others = [name for name in task.app.amqp.queues.consume_from if name != queue]
    next_jobs = iter(()) if is_bench_queue(queue) else child.next_messages.after(limit_s, queue, others)
    try:
        child.run(job_id, attempt, alone=is_bench_queue(queue))
        for job_id, attempt, claimed in next_jobs:
            child.run(job_id, attempt, claimed=claimed)
        child.spent.clear_up()
    except SoftTimeLimitExceeded:
        log.info("the time of a message ran out; if its job was not claimed, the sweeper sends it again", job=job_id)


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _set_up_logging(**_: Any) -> None:
    configure_logs(get_settings())


@signals.worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop_taking(**_: Any) -> None:
    worker_stops()


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _start(**_: Any) -> None:
    # When the worker stops, the parent no longer reads the results of messages, and the child would wait 30 s for that.
    # Nothing depends on them: the results of jobs are in the ledger.
    pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = 1
    if reason := os.environ.get(QUARANTINED):
        _out_of_service.append(start_quarantined(get_settings(), reason))
    else:
        with ends_if_worker_stops():
            _child.append(start(get_settings()))
        signs_of_life.begin()


@signals.worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _stop(**_: Any) -> None:
    for child in _child:
        child.wait_until_idle()
        child.spare_time.stop()
        with suppress(MatmulError):  # its registration expires by itself
            child.heartbeat.stop()
        child.launches.flush()
    for beats in _out_of_service:
        with suppress(MatmulError):
            beats.stop()
