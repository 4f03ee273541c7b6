"""Turns a product request into a job: checks, places, stores and records it, all in one worker-thread call."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import orjson

from jobs.errors import MatmulError, MatrixNotFound, NoWorkerForKernel, NoWorkers, OperandMissing, StoreUnavailable
from jobs.fleet.workers import WorkerInfo
from jobs.ledger.interface import IdempotencyKey
from jobs.ledger.submission import BESIDE
from jobs.matrices.packed import DIGEST_BYTES
from jobs.models import Job, MatmulRequest, NewJob
from jobs.requests.job_matrices import JobMatrices, StoredOperand
from jobs.requests.operands import INPUTS, OPERANDS, SCALES, OperandRef, RandomSpec
from jobs.states import REDRIVABLE
from kernels.model.numerics import OPERAND_FLAGS
from kernels.model.scales import SCALE_DTYPE
from kernels.selection.demands import demand_of
from service.bodies.options import MatrixRef
from service.bodies.reader import NEEDED, MatmulInput
from service.bodies.uploads import Upload
from service.context import Context
from service.http.negotiation import PRODUCT_OFFERS, choose_type, offers_for
from service.submit.epilogue import beta_of
from service.submit.job import Receipt, replayed, submit_job
from service.submit.operands import OperandResolver, fingerprint
from service.submit.placement import choose_queue
from service.submit.plan import ProductPlan
from service.submit.without_workers import explained, waiting_queue

PADDED_TO = 16  # m and n of products that share a launch are padded to multiples of this
ASK_ROOM_BYTES = 1 << 20  # for a smaller product the worker checks for room
TOGETHER_BYTES = 256 << 10  # a stored matrix up to this size may share a launch on a CPU


@dataclass(frozen=True, slots=True)
class Submitter:
    """Submits one request."""

    context: Context
    owner: str
    job_id: str
    operands: OperandResolver
    accept: str | None
    idempotency_key: str | None
    waits: bool  # whether the caller waits for the product
    is_async: bool = False  # whether the request has `Prefer: respond-async`
    path: str = "/v1/matmul"  # of the request

    def submit(self, asked: MatmulInput) -> Receipt:
        """Submits the product. Raises InvalidRequest and its subclasses, NotAcceptable, and what the store and the
        ledger raise.
        """
        key = self._key(asked)
        if (receipt := replayed(self.context, self.owner, key)) is not None:
            return receipt
        asked = asked.with_one_upload(self.context.settings.record_matrix_bytes)
        plan = self.operands.plan(asked)
        choose_type(self.accept, offers_for(plan.delivered.dtype, PRODUCT_OFFERS))
        queue = self._queue(asked, plan, self.context.workers.now())
        claims_some = any(not upload.is_unclaimed for upload in asked.uploads.values())
        if plan.delivered.bytes > ASK_ROOM_BYTES and claims_some:  # else it is asked in the step that records the job
            self.context.store.check_room(plan.delivered.bytes, owner=self.owner)
        return self._store_and_record(self._new_job(asked, plan, queue), asked, key)

    async def at_once(self, asked: MatmulInput) -> Receipt | None:
        """Submits the product if only the ledger is needed, because its matrices go into the record or are known;
        otherwise None.
        """
        workers = self.context.fresh_workers()
        if workers is None or self.idempotency_key is not None or not self._needs_no_store(asked):
            return None
        try:
            return await self._record(asked, workers)
        except StoreUnavailable:
            raise  # the job may have been recorded all the same
        except (NoWorkers, NoWorkerForKernel):
            self.operands.assume_nothing()
            return None  # one may have started since they were read
        except MatmulError:
            if not self.operands.has_assumed:
                raise
            self.operands.assume_nothing()  # a matrix may be gone; look all of them up to find what is wrong
            return None

    async def _record(self, asked: MatmulInput, workers: Sequence[WorkerInfo]) -> Receipt:
        plan = self.operands.plan(asked)
        choose_type(self.accept, offers_for(plan.delivered.dtype, PRODUCT_OFFERS))
        new = self._new_job(asked, plan, self._queue(asked, plan, workers))
        limits = self.context.limits.queue(self.owner)
        with self.context.breaker.watching():
            recorded = await self.context.ledger.submit_on(
                self.context.line,
                new,
                max_queued=limits.all,
                max_queued_per_owner=limits.of_owner,
            )
        return Receipt(new.id, recorded, new)

    def _queue(self, asked: MatmulInput, plan: ProductPlan, workers: Sequence[WorkerInfo]) -> str:
        try:
            return choose_queue(asked.options, plan, workers)
        except (NoWorkers, NoWorkerForKernel) as refusal:
            fleet, settings = self.context.fleet, self.context.settings
            asked_to_wait = self.is_async and not fleet.has_useless
            if (queue := waiting_queue(plan, workers, settings, asked=asked_to_wait)) is not None:
                return queue
            raise explained(refusal, fleet, settings, may_ask=not self.path.startswith("/v2/")) from None

    def _needs_no_store(self, asked: MatmulInput) -> bool:
        max_bytes = self.context.settings.record_matrix_bytes
        return all(
            isinstance(operand, RandomSpec | MatrixRef)
            or (isinstance(operand, Upload) and operand.bytes <= max_bytes and name in OPERANDS)
            for name, operand in asked.operands.items()
        ) and self.operands.assume(asked)

    def _key(self, asked: MatmulInput) -> IdempotencyKey | None:
        if self.idempotency_key is None:
            return None
        return IdempotencyKey(self.idempotency_key, fingerprint(f"POST {self.path}", asked))

    def _new_job(self, asked: MatmulInput, plan: ProductPlan, queue: str) -> NewJob:
        matrices, timeout_s = self._matrices(asked, plan), self.context.settings.job_timeout_s
        request, batch = self._request(asked, plan, matrices), BESIDE
        if self._goes_together(asked, plan, matrices, queue):
            key = "batch", request.a.dtype, request.a.shape, request.b.shape, timeout_s
            find = partial(batch_of, request, timeout_s)
            batch = asked.options.derived(key, find) if asked.is_plain else find()
        return NewJob(
            id=self.job_id,
            owner=self.owner,
            queue=queue,
            timeout_s=timeout_s,
            request=request,
            matrices=matrices,
            reply_to=self.context.hub.name if self.waits else "",
            batch=batch,
        )

    def _request(self, asked: MatmulInput, plan: ProductPlan, matrices: JobMatrices) -> MatmulRequest:
        """The request to be recorded. Where A and B come with it, it depends on their types and shapes alone, but for
        the names of those that are stored.
        """
        a, b = asked.a, asked.b
        if not (asked.is_plain and isinstance(a, Upload) and isinstance(b, Upload)):
            return self._make_request(asked, plan, self._references(asked, plan, matrices))
        key = "request", a.dtype, a.shape, b.dtype, b.shape
        usual = asked.options.derived(key, lambda: self._make_request(asked, plan, _unnamed(a, b)))
        if matrices.a and matrices.b:
            return usual
        return usual.model_copy(update=self._references(asked, plan, matrices))

    def _make_request(
        self, asked: MatmulInput, plan: ProductPlan, references: Mapping[str, OperandRef]
    ) -> MatmulRequest:
        options = asked.options
        return MatmulRequest(
            **references,
            kernel=options.kernel,
            config=options.config,
            accuracy=plan.accuracy,
            **{name: getattr(options, name) for name in OPERAND_FLAGS},
            verify=options.verify,
            alpha=options.alpha,
            beta=beta_of(options, asked.c is not None),
            tolerance=options.tolerance,
            tolerance_kind=options.tolerance_kind or "componentwise",
            reproducible=options.reproducible,
            activation=options.activation,
            output_dtype=options.output_dtype,
            group_sizes=options.group_sizes,
        )

    def _references(self, asked: MatmulInput, plan: ProductPlan, matrices: JobMatrices) -> dict[str, OperandRef]:
        """The operands' references, by operand."""
        usual = dict.fromkeys(INPUTS, plan.problem.product_dtype) | dict.fromkeys(NEEDED, plan.operand_dtype)
        usual |= dict.fromkeys(SCALES, SCALE_DTYPE)
        return {
            name: self.operands.refer(operand, name, usual[name], in_record=getattr(matrices, name, None) is not None)
            for name, operand in asked.operands.items()
        }

    def _matrices(self, asked: MatmulInput, plan: ProductPlan) -> JobMatrices:
        """The matrices kept in the job's record, and those stored for it that it is to claim."""
        settings = self.context.settings
        max_bytes = settings.record_matrix_bytes
        packed = {name: self.operands.pack(getattr(asked, name)) for name in OPERANDS}
        product_bytes = plan.delivered.bytes
        room = product_bytes + DIGEST_BYTES if product_bytes <= max_bytes else 0
        stored = tuple(
            StoredOperand(id=operand.name, dtype=operand.dtype, shape=operand.shape)
            for name, operand in asked.uploads.items()
            if packed.get(name) is None and operand.is_unclaimed
        )
        return JobMatrices(
            **packed,
            product_bytes=room,
            ttl_s=settings.product_ttl_s,
            stored=stored,
            used_ttl_s=settings.matrix_ttl_s,
            room_bytes=product_bytes if product_bytes > ASK_ROOM_BYTES else 0,
        )

    def _goes_together(self, asked: MatmulInput, plan: ProductPlan, matrices: JobMatrices, queue: str) -> bool:
        """Whether the job may share a launch: operands and product are in the record or, on a CPU, small and stored for
        this job. On a GPU such stored jobs overlap instead.
        """
        stored_bytes = TOGETHER_BYTES if queue == "cpu" else 0
        there = all(
            getattr(matrices, name, None) is not None
            or self.operands.comes_in_record(operand)
            or (isinstance(operand, Upload) and operand.waits and operand.bytes <= stored_bytes)
            for name, operand in asked.operands.items()
        )
        return there and (matrices.product_bytes > 0 or plan.delivered.bytes <= stored_bytes)

    def _store_and_record(self, new: NewJob, asked: MatmulInput, key: IdempotencyKey | None) -> Receipt:
        claimed: list[str] = []
        for_job = {operand.id for operand in new.matrices.stored}

        def store() -> None:
            for name, operand in asked.uploads.items():
                if getattr(new.matrices, name, None) is None:
                    if operand.name in for_job:
                        operand.commit_for_job()
                    else:
                        claimed.append(operand.commit().id)

        def drop() -> None:
            for matrix_id in claimed:
                with suppress(MatrixNotFound, StoreUnavailable):
                    self.context.store.delete(matrix_id, owner=self.owner)
            for operand in new.matrices.stored:
                with suppress(StoreUnavailable):
                    self.context.store.drop(operand.id, operand.dtype, operand.shape)

        return submit_job(self.context, new, key, store=store, drop=drop)


def _unnamed(a: Upload, b: Upload) -> dict[str, OperandRef]:
    """References to operands that are in the job's record."""
    of = {"a": a, "b": b}
    return {name: OperandRef(source="inline", dtype=each.dtype, shape=each.shape) for name, each in of.items()}


def batch_of(request: MatmulRequest, timeout_s: float) -> str:
    """The batch key: jobs with the same key may share a launch. It consists of types, options, k, and m and n, which
    are rounded up unless the caller names a kernel. Empty if the job must run alone. k is never rounded, because
    tolerances depend on it.
    """
    problem = request.problem
    if len(request.a.shape) + len(request.b.shape) != 4 or request.has_epilogue or demand_of(request):
        return ""
    if problem.scale_columns:
        return ""
    if problem.dtype != request.a.dtype:
        return ""
    rest = orjson.dumps([request.model_dump(exclude={"a", "b"}), timeout_s], option=orjson.OPT_SORT_KEYS)
    step = PADDED_TO if request.kernel == "auto" else 1
    m, n = (-(-size // step) * step for size in (problem.m, problem.n))
    return f"{problem.dtype}:{m}x{n}x{problem.k}:{hashlib.sha256(rest).hexdigest()[:16]}"


def check_operands(context: Context, job: Job) -> None:
    """Raises OperandMissing if operands of a job are gone, because its retry would only fail."""
    if job.record.state not in REDRIVABLE:
        return  # the ledger says so
    request = job.record.request
    for name, operand in (request.operands if isinstance(request, MatmulRequest) else {}).items():
        if name in job.operands_in_record:
            if not job.matrices_kept:
                raise OperandMissing(field=name)
        elif operand.matrix is not None:
            try:
                context.store.info(operand.matrix, owner=job.owner)
            except MatrixNotFound:
                raise OperandMissing(field=name) from None
