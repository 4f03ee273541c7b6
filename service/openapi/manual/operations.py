"""/v1/queues, /v1/workers, /v1/dead-letters."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import Field

from jobs import errors
from jobs.base import Strict
from jobs.models import JobRecord
from service.openapi.manual.parts import IDEMPOTENCY_KEY, KEYS, Piece, json_answer, problems
from service.operations.steering import QueueList, QueueView, WorkerSwitch

TAGS = ["operations"]
QueueName = Annotated[str, Path(description="Name of the queue.", examples=["cpu"], max_length=200)]
WorkerName = Annotated[
    str, Path(description="Name of the worker, as in GET /v1/devices.", examples=["host/cpu/1"], max_length=300)
]
STEER = problems(errors.NotFound, errors.InvalidRequest, *KEYS)
QUEUE = json_answer(QueueView, "The queue as it is now.", "Idempotent-Replayed")
ALL_QUEUES = json_answer(QueueList, "The queues as they are now.", "Idempotent-Replayed")
WORKER = json_answer(WorkerSwitch, "The worker.", "Idempotent-Replayed")


class DeadLetters(Strict):
    """Jobs that used up their attempts."""

    jobs: tuple[JobRecord, ...] = Field(description="Most recently ended first; a key's own jobs only.")


def _for_operators(
    operation_id: str, summary: str, effect: str, answer: Piece, refusals: dict[int | str, Piece]
) -> Piece:
    return {
        "tags": TAGS,
        "operation_id": operation_id,
        "summary": summary,
        "description": f"For operators. {effect}",
        "responses": {200: answer, **refusals},
        "openapi_extra": {"parameters": [IDEMPOTENCY_KEY]},
    }


QUEUES: Piece = {
    "tags": TAGS,
    "operation_id": "list_queues",
    "summary": "List the queues",
    "description": "How many jobs wait in each and for how long, which workers consume it, and whether it is paused.",
    "responses": {200: json_answer(QueueList, "The queues."), **problems(errors.InvalidRequest)},
}
PAUSE_QUEUE = _for_operators(
    "pause_queue", "Pause a queue", "New jobs are accepted and wait; running jobs continue to their end.", QUEUE, STEER
)
RESUME_QUEUE = _for_operators(
    "resume_queue", "Resume a queue", "Its jobs start again within some seconds.", QUEUE, STEER
)
PAUSE = _for_operators(
    "pause_service",
    "Pause the whole service",
    "No job of any queue is started; running jobs continue to their end.",
    ALL_QUEUES,
    problems(*KEYS),
)
RESUME = _for_operators(
    "resume_service",
    "Resume the whole service",
    "A queue that was paused alone stays paused.",
    ALL_QUEUES,
    problems(*KEYS),
)
DRAIN = _for_operators(
    "drain_worker",
    "Drain a worker",
    "Within a second or so the worker takes no more jobs. It finishes those it has, and stays `drained` until it is "
    "resumed or restarted.",
    WORKER,
    STEER,
)
RESUME_WORKER = _for_operators("resume_worker", "Resume a worker", "A drained worker takes jobs again.", WORKER, STEER)
DEAD_LETTERS: Piece = {
    "tags": TAGS,
    "operation_id": "list_dead_letters",
    "summary": "List the dead letters",
    "description": "The last 200 jobs that used up their attempts, for example because each attempt killed its "
    "worker. Each can be retried or deleted like any failed job.",
    "responses": {200: json_answer(DeadLetters, "The jobs."), **problems(errors.InvalidRequest)},
}
