"""POST /v2/models/{model}/infer: a product, by the Open Inference Protocol."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import cast

from fastapi import APIRouter, Request, Response

from jobs.errors import InvalidRequest, WrongState
from jobs.models import new_id
from service.bodies.body import Body
from service.bodies.reader import Reader
from service.bodies.receive import receive
from service.bodies.uploads import UploadOwner, UploadSet
from service.changes import Watch
from service.context import Context, context_of, owner_of
from service.http.idempotency import holding_key
from service.http.listed import sole
from service.http.preferences import Wait
from service.inference.body import InRegion
from service.inference.head import LENGTH_HEADER
from service.inference.models import MODELS, VERSION, model_of
from service.inference.reader import (
    BinaryInferReader,
    InferParser,
    InferRequest,
    JsonInferReader,
    header_length,
)
from service.inference.regions import Regions, Window
from service.inference.reply import InferReply, check_sendable
from service.problems import ProductNotReady
from service.routes.matmul import EndReplies, answer
from service.submit.job import Receipt
from service.submit.operands import OperandResolver
from service.submit.product import Submitter
from service.submit.replies import job_location

ACCEPTED = 202
MODEL_PATHS = tuple({"name": name, "version": VERSION} for name in MODELS)  # the parameters of all paths below

router = APIRouter(prefix="/v2/models/{name}", include_in_schema=False)


@router.post("/infer")
@router.post("/versions/{version}/infer")
async def infer(request: Request) -> Response:
    with ExitStack() as held:
        call = InferCall(request, held)
        async with holding_key(request) as key:
            job_id = call.context.new_job_id()
            with call.context.hub.watch(job_id, answers_only=True) as watch:
                receipt = await call.submit(job_id, key)
                if not receipt.replayed:
                    return await call.answer(receipt, watch, key)
            with call.context.hub.watch(receipt.job_id, ends_only=True) as watch:
                return await call.answer(receipt, watch, key)


class InferCall:
    """One inference call. Its open shared memory is closed with `held`."""

    def __init__(self, request: Request, held: ExitStack) -> None:
        self.context: Context = context_of(request)
        self._request = request
        self._held = held
        self._owner = owner_of(request)
        self._model = model_of(request.path_params)
        self._regions = Regions(self.context.client, self.context.settings)
        self._infer_request: InferRequest
        self._target: Window | None = None

    async def submit(self, job_id: str, key: str | None) -> Receipt:
        """Reads the body and records a job for it."""
        context, request, settings = self.context, self._request, self.context.settings
        length = header_length(sole(request, LENGTH_HEADER))
        limit_bytes = settings.max_json_bytes if length is None else settings.max_body_bytes
        body = Body(request.scope, request.receive, limit_bytes=limit_bytes, memory=context.bodies, inflates=True)
        uploads = UploadSet(
            context.store,
            lambda: UploadOwner(self._owner, settings.product_ttl_s, name=new_id("op")),
            max_bytes=settings.max_matrix_bytes,
            fingerprinted=key is not None,
            unclaimed=context.unclaimed,
        )
        operands = OperandResolver(context, self._owner)
        path = request.scope["path"]
        submitter = Submitter(context, self._owner, job_id, operands, None, key, waits=True, path=path)

        def parser(header_bytes: int) -> InferParser:
            return InferParser(
                header_bytes,
                self._model,
                uploads.open,
                operands.check,
                body_bytes=body.declared_bytes,
                is_alone=length is None,
                open_window=self._window,
            )

        def submit(infer_request: InferRequest) -> Receipt:
            self._take(infer_request, operands)
            return submitter.submit(infer_request.product)

        async def at_once(infer_request: InferRequest) -> Receipt | None:
            self._take(infer_request, operands)
            return await submitter.at_once(infer_request.product)

        reader: Reader[InferRequest] = JsonInferReader(parser) if length is None else BinaryInferReader(parser(length))
        in_thread = self._regions.is_on  # reading shared memory needs a thread
        return await receive(context, body, reader, uploads, submit, None if in_thread else at_once)

    def _take(self, infer_request: InferRequest, operands: OperandResolver) -> None:
        """Checks that the product can be sent as requested. Raises InvalidRequest and its subclasses."""
        self._infer_request, where = infer_request, infer_request.body.output
        if where.is_in_region:
            self._target = self._held.enter_context(self._window(where, writes=True))
        if where.is_in_region or not infer_request.body.is_binary:
            check_sendable(self.context, infer_request, operands.plan(infer_request.product).delivered)

    def _window(self, where: InRegion, *, writes: bool) -> AbstractContextManager[Window]:
        self._regions.check_on()
        name, size = where.shared_memory_region, where.shared_memory_byte_size
        if size is None:
            raise InvalidRequest("A tensor in shared memory needs shared_memory_byte_size.")
        return self._regions.window(self._owner, cast(str, name), where.shared_memory_offset, size, writes=writes)

    async def answer(self, receipt: Receipt, watch: Watch, key: str | None) -> Response:
        """The reply. Raises ProductNotReady, and what sending a product raises."""
        max_s, timeout_s = self.context.settings.max_wait_s, self._infer_request.body.parameters.timeout_s
        is_over = timeout_s is not None and timeout_s <= max_s  # after the wait
        wait = Wait(min(timeout_s or max_s, max_s), None)
        infer_reply = InferReply(self._model, self._infer_request, self._target)
        replies = EndReplies(infer_reply.make, infer_reply.reads_store)
        reply = await answer(self._request, receipt, watch, wait, key, replies)
        if reply.status_code != ACCEPTED:
            return reply
        give_up = partial(self._give_up, receipt.job_id, wait.seconds, infer_reply, cancels=is_over)
        return await self.context.call(give_up)

    def _give_up(self, job_id: str, waited_s: float, reply: InferReply, *, cancels: bool) -> Response:
        """Cancels the job of a product that came too late. If it ended in the meantime, returns the reply."""
        goes_on = "was cancelled" if cancels else f"goes on; see /v1/jobs/{job_id}"
        if cancels:
            try:
                self.context.ledger.cancel(job_id, owner=self._owner)
            except WrongState:
                job = self.context.ledger.get(job_id, owner=self._owner, with_product=True)
                if (late := reply.make(self.context, job, self._request, {})) is not None:
                    return late
        raise ProductNotReady(
            f"The product was not ready within {waited_s:g} s; its job {goes_on}.",
            headers=job_location(job_id),
            members={"job": job_id},
        )
