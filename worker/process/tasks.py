"""The worker's side of Celery: what a child does when it starts, for each message, and when it ends."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from celery import shared_task, signals

from jobs.errors import MatmulError
from jobs.logs import configure_logs
from jobs.queue import RUN_TASK
from jobs.settings import get_settings
from worker.process.child import Child, start

_child: list[Child] = []  # this process's, once it has started; none in the parent


@shared_task(name=RUN_TASK, ignore_result=True)  # type: ignore[untyped-decorator]  # Celery has no types
def run(job_id: str, attempt: int) -> None:
    _child[0].run(job_id, attempt)


@signals.setup_logging.connect  # type: ignore[untyped-decorator]
def _set_up_logging(**_: Any) -> None:
    configure_logs(get_settings())


@signals.worker_process_init.connect  # type: ignore[untyped-decorator]
def _start(**_: Any) -> None:
    _child.append(start(get_settings()))


@signals.worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def _stop(**_: Any) -> None:
    for child in _child:
        child.spare_time.stop()
        with suppress(MatmulError):  # its time on the register runs out by itself
            child.heartbeat.stop()
