"""From a request to a recorded job: checked, stored, recorded, published, all in one trip to a worker thread."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from jobs.errors import MatmulError, MatrixNotFound, OperandMissing, StoreFull, StoreUnavailable
from jobs.ledger.interface import IdempotencyKey, JobMessage
from jobs.models import Job, MatmulRequest, NewJob
from jobs.queue import publish
from jobs.states import REDRIVABLE
from service.bodies.reader import Asked
from service.bodies.uploads import Upload
from service.context import Context
from service.http.negotiation import PRODUCT_OFFERS, choose_type, offers_for
from service.submit.operands import Operands, fingerprint
from service.submit.placement import choose_queue
from service.submit.plan import Plan

ASK_ROOM_BYTES = 1 << 20  # for a smaller product the worker finds out

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Receipt:
    """The job of a request: recorded for it or, where its Idempotency-Key was used before, for the first one."""

    job: Job
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Submitter:
    """One request's way to a job."""

    context: Context
    owner: str
    job_id: str
    operands: Operands
    accept: str | None
    idempotency_key: str | None

    def submit(self, asked: Asked) -> Receipt:
        """Raises InvalidRequest and its kin, NotAcceptable, and what the store and the ledger raise."""
        key = self._key(asked)
        if key is not None and (first := self.context.ledger.bound_job(self.owner, key)) is not None:
            return Receipt(self.context.ledger.get(first, owner=self.owner), replayed=True)
        plan = self.operands.plan(asked.options, asked.a, asked.b)
        choose_type(self.accept, offers_for(plan.problem.product_dtype, PRODUCT_OFFERS))
        queue = choose_queue(asked.options, plan, self.context.workers.now())
        if plan.problem.product_bytes > ASK_ROOM_BYTES:
            self.context.store.check_room(plan.problem.product_bytes, owner=self.owner)
        return self._record(self._new_job(asked, plan, queue), asked, key)

    def _key(self, asked: Asked) -> IdempotencyKey | None:
        if self.idempotency_key is None:
            return None
        return IdempotencyKey(self.idempotency_key, fingerprint("POST /v1/matmul", asked))

    def _new_job(self, asked: Asked, plan: Plan, queue: str) -> NewJob:
        options = asked.options
        request = MatmulRequest(
            a=self.operands.refer(asked.a, "a", options),
            b=self.operands.refer(asked.b, "b", options),
            kernel=options.kernel,
            config=options.config,
            accuracy=plan.accuracy,
            transpose_a=options.transpose_a,
            transpose_b=options.transpose_b,
            verify=options.verify,
        )
        timeout_s = self.context.settings.job_timeout_s
        return NewJob(id=self.job_id, owner=self.owner, queue=queue, timeout_s=timeout_s, request=request)

    def _record(self, new: NewJob, asked: Asked, key: IdempotencyKey | None) -> Receipt:
        settings = self.context.settings
        stored: list[str] = []
        try:
            for operand in (asked.a, asked.b):
                if isinstance(operand, Upload):
                    stored.append(operand.commit().id)
            job, message = self.context.ledger.submit(
                new,
                max_queued=settings.max_queued_jobs,
                max_queued_per_owner=settings.max_queued_jobs_per_key,
                idempotency=key,
            )
        except StoreUnavailable:
            raise  # the job may be recorded all the same, and then needs its operands; they go when their time is up
        except MatmulError:
            self._drop(stored)
            raise
        if message is None:  # another request with this key was faster
            self._drop(stored)
            return Receipt(job, replayed=True)
        send_message(self.context, message)
        return Receipt(job)

    def _drop(self, matrix_ids: Sequence[str]) -> None:
        for matrix_id in matrix_ids:
            with suppress(MatrixNotFound, StoreUnavailable):
                self.context.store.delete(matrix_id, owner=self.owner)


def send_message(context: Context, message: JobMessage) -> None:
    """Tells the workers of a recorded job. Where the broker is away, the sweeper sends the message later."""
    try:
        publish(context.celery, message)
    except (StoreUnavailable, StoreFull) as error:
        log.warning("a job's message was not sent; the sweeper will", job=message.job_id, error=error.type)


def check_operands(context: Context, job: Job) -> None:
    """A retry of a job whose operands are gone would only fail. Raises OperandMissing."""
    if job.record.state not in REDRIVABLE:
        return  # the ledger says so
    for name, operand in zip("ab", job.record.operands, strict=False):
        if operand.matrix is not None:
            try:
                context.store.info(operand.matrix, owner=job.owner)
            except MatrixNotFound:
                raise OperandMissing(field=name) from None
