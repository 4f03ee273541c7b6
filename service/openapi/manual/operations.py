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
REPEATED: Piece = {"parameters": [IDEMPOTENCY_KEY]}


class DeadLetters(Strict):
    """Jobs that used up their attempts."""

    jobs: tuple[JobRecord, ...] = Field(description="The last that ended first; a key's own jobs only.")


QUEUES: Piece = {
    "tags": TAGS,
    "operation_id": "list_queues",
    "summary": "List the queues",
    "description": "How many jobs wait in each and for how long, who takes from it, and whether it is paused.",
    "responses": {200: json_answer(QueueList, "The queues."), **problems(errors.InvalidRequest)},
}
PAUSE_QUEUE: Piece = {
    "tags": TAGS,
    "operation_id": "pause_queue",
    "summary": "Pause a queue",
    "description": "For operators. Its jobs are taken and wait; those that run go on to their end.",
    "responses": {200: json_answer(QueueView, "The queue as it is now.", "Idempotent-Replayed"), **STEER},
    "openapi_extra": REPEATED,
}
RESUME_QUEUE: Piece = {
    "tags": TAGS,
    "operation_id": "resume_queue",
    "summary": "Resume a queue",
    "description": "For operators. Its jobs are started again within some seconds.",
    "responses": {200: json_answer(QueueView, "The queue as it is now.", "Idempotent-Replayed"), **STEER},
    "openapi_extra": REPEATED,
}
PAUSE: Piece = {
    "tags": TAGS,
    "operation_id": "pause_service",
    "summary": "Pause the whole service",
    "description": "For operators. No job of any queue is started; those that run go on to their end.",
    "responses": {200: json_answer(QueueList, "The queues as they are now.", "Idempotent-Replayed"), **problems(*KEYS)},
    "openapi_extra": REPEATED,
}
RESUME: Piece = {
    "tags": TAGS,
    "operation_id": "resume_service",
    "summary": "Resume the whole service",
    "description": "For operators. A queue that was paused alone stays so.",
    "responses": {200: json_answer(QueueList, "The queues as they are now.", "Idempotent-Replayed"), **problems(*KEYS)},
    "openapi_extra": REPEATED,
}
DRAIN: Piece = {
    "tags": TAGS,
    "operation_id": "drain_worker",
    "summary": "Drain a worker",
    "description": "For operators. It ends its jobs and takes no more until it is resumed or started again. "
    "It hears of it within a second or so, and its state is then `drained`.",
    "responses": {200: json_answer(WorkerSwitch, "The worker.", "Idempotent-Replayed"), **STEER},
    "openapi_extra": REPEATED,
}
RESUME_WORKER: Piece = {
    "tags": TAGS,
    "operation_id": "resume_worker",
    "summary": "Let a drained worker take jobs again",
    "description": "For operators.",
    "responses": {200: json_answer(WorkerSwitch, "The worker.", "Idempotent-Replayed"), **STEER},
    "openapi_extra": REPEATED,
}
DEAD_LETTERS: Piece = {
    "tags": TAGS,
    "operation_id": "list_dead_letters",
    "summary": "List the dead letters",
    "description": "Jobs that used up their attempts, as where each killed its worker: the last 200. Each can be "
    "retried or deleted, as any job that failed.",
    "responses": {200: json_answer(DeadLetters, "The jobs."), **problems(errors.InvalidRequest)},
}
