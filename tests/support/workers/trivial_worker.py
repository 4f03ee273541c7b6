"""A Celery worker that runs no kernels: its task does what the job's id says, and notes it in Redis."""

from __future__ import annotations

import os
import time

from jobs.queue import RUN_TASK, make_celery
from jobs.redis.client import connect
from jobs.settings import get_settings

NOTES = "test-notes"

app = make_celery(get_settings())
app.conf.worker_pool = "worker.pool.task_pool:TaskPool"  # as the real ones


@app.task(name=RUN_TASK)  # type: ignore[untyped-decorator]
def run(job_id: str, attempt: int) -> None:
    settings = get_settings()
    with connect(settings) as client:
        client.rpush(f"{settings.key_prefix}{NOTES}", f"{job_id} {attempt} {os.getpid()}")
        if job_id.startswith("hang") and client.set(f"{settings.key_prefix}hung:{job_id}", 1, nx=True):
            time.sleep(60)
