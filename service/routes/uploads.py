"""/v1/uploads: large matrices, sent in ranges or directly to the object store; /v1/matrices/{id}/url: downloads from
there.
"""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from jobs.matrices.ranged.writer import RangeWriter
from service.bodies.body import Body
from service.bodies.options import parse_model
from service.bodies.piece import Piece
from service.bodies.reader import Reader, accepted_type, json_object
from service.bodies.receive import receive
from service.bodies.uploads import UploadOwner, UploadSet
from service.context import context_of, owner_of
from service.http.idempotency import holding_key, once
from service.http.listed import sole
from service.http.negotiation import JSON, OCTETS
from service.openapi.manual import uploads as manual
from service.routes.matrices import info_json
from service.submit.transfers import (
    UploadRequest,
    UploadView,
    complete,
    given_up,
    open_upload,
    range_writer,
    reopen_upload,
    status_of,
    url_of,
)

REQUEST_BYTES = 4096  # largest body: an id, a type and a shape
PRIVATE = {"cache-control": "no-store"}  # a URL is as good as a key while it lasts

router = APIRouter(prefix="/v1")


@router.post("/uploads", **manual.OPEN)
async def open_one(request: Request) -> Response:
    context, owner = context_of(request), owner_of(request)
    accepted_type(sole(request, "Content-Type"), JSON)
    async with holding_key(request) as key:
        text = await Body(request.scope, request.receive, limit_bytes=REQUEST_BYTES).read()
        asked = parse_model(UploadRequest, json_object(text))

        def act() -> tuple[Response, str]:
            view = open_upload(context, asked, owner=owner)
            return _upload_reply(view), view.upload

        def again(upload: str) -> Response:
            return _upload_reply(reopen_upload(context, upload, owner=owner))

        return await context.call(once, request, key, asked.model_dump_json(), act, again)


def _upload_reply(view: UploadView) -> Response:
    return Response(view.model_dump_json(), 201, {"location": f"/v1/uploads/{view.upload}", **PRIVATE}, JSON)


@router.get("/uploads/{upload}", **manual.STATUS)
async def get_status(request: Request, upload: manual.UploadId) -> Response:
    context = context_of(request)
    status = await context.call(status_of, context, upload, owner=owner_of(request))
    return Response(status.model_dump_json(), 200, PRIVATE, JSON)


class RangeReader(Reader[None]):
    """Passes elements unchanged to the upload's file."""

    def __init__(self, writer: RangeWriter) -> None:
        self._writer = writer

    def feed(self, data: Piece) -> None:
        self._writer.write(data)

    def finish(self) -> None:
        self._writer.finish()


@router.put("/uploads/{upload}", **manual.SEND)
async def put_range(request: Request, upload: manual.UploadId) -> Response:
    context, owner = context_of(request), owner_of(request)
    accepted_type(sole(request, "Content-Type") or OCTETS, OCTETS)
    said = sole(request, "Content-Range")
    writer = await context.call(range_writer, context, upload, said, owner=owner)
    try:
        body = Body(request.scope, request.receive, limit_bytes=writer.left_bytes, memory=context.bodies)
        no_matrices = UploadSet(context.store, partial(UploadOwner, owner, 0.0), max_bytes=0)
        await receive(context, body, RangeReader(writer), no_matrices, lambda _: None)
    finally:
        writer.close()
    return Response(None, 204)


@router.post("/uploads/{upload}/complete", **manual.COMPLETE)
async def complete_one(request: Request, upload: manual.UploadId) -> Response:
    context, owner = context_of(request), owner_of(request)
    async with holding_key(request) as key:

        def act() -> tuple[Response, str]:
            info = complete(context, upload, owner=owner)
            return _stored_reply(info_json(info), info.id), info.id

        def again(first: str) -> Response:
            return _stored_reply(info_json(context.store.info(first, owner=owner)), first)

        reply = await context.call(once, request, key, "", act, again)
    await context.check_written()
    return reply


def _stored_reply(body: bytes, matrix_id: str) -> Response:
    return Response(body, 201, {"location": f"/v1/matrices/{matrix_id}"}, JSON)


@router.delete("/uploads/{upload}", **manual.GIVE_UP)
async def give_up_one(request: Request, upload: manual.UploadId) -> Response:
    context = context_of(request)
    await context.call(given_up, context, upload, owner=owner_of(request))
    return Response(None, 204)


@router.get("/matrices/{matrix_id}/url", **manual.URL)
async def get_url(request: Request, matrix_id: manual.MatrixId) -> Response:
    context = context_of(request)
    view = await context.call(url_of, context, matrix_id, owner=owner_of(request))
    return Response(view.model_dump_json(), 200, PRIVATE, JSON)
