"""/v1/matrices: matrices that are stored once, by contents, and used in many products."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
from fastapi import APIRouter, Request, Response

from jobs.errors import MatrixNotFound
from jobs.matrices.indexed_store import is_address
from jobs.matrices.interface import MatrixInfo
from service.bodies.body import Body
from service.bodies.matrix import ACCEPTED_TYPES, matrix_reader
from service.bodies.reader import accepted_type
from service.bodies.receive import receive
from service.bodies.uploads import Upload, UploadOwner, UploadSet
from service.context import context_of, owner_of
from service.http.conditions import check_change, check_match, is_conditional
from service.http.idempotency import holding_key, once
from service.http.listed import listed, sole
from service.http.negotiation import FILE_OFFERS, JSON, choose_type, offers_for
from service.http.representations import Conditions, StoredElements, etag_of, represent, send
from service.openapi.manual import matrices as manual
from service.submit.matrices import delete_matrix, find_matrix

MADE_NOW_S = 1e-4  # tolerance when deciding whether this request made the claim, by its expiry

router = APIRouter(prefix="/v1/matrices")


@router.post("", **manual.UPLOAD)
async def upload_matrix(request: Request) -> Response:
    async with holding_key(request) as key:
        return await _upload(request, None, key)


@router.put("/{matrix_id}", **manual.PUT)
async def put_matrix(request: Request, matrix_id: manual.MatrixId) -> Response:
    if not is_address(matrix_id):
        raise MatrixNotFound("A matrix can be put under the sha256 of its dtype, shape and contents only.")
    if is_conditional(request):
        check_change(request, *await context_of(request).call(_etags, request, matrix_id))
    return await _upload(request, matrix_id, None)


def _etags(request: Request, matrix_id: str) -> tuple[str, ...]:
    """The ETags of the matrix, one for each media type; none if there is no such matrix."""
    try:
        find_matrix(context_of(request), matrix_id, owner=owner_of(request))
    except MatrixNotFound:
        return ()
    return tuple(etag_of(matrix_id, media_type) for media_type in FILE_OFFERS)


async def _upload(request: Request, expected_id: str | None, key: str | None) -> Response:
    context, owner = context_of(request), owner_of(request)
    settings, ttl_s = context.settings, float(context.settings.matrix_ttl_s)
    media_type = accepted_type(sole(request, "Content-Type"), *ACCEPTED_TYPES)
    limit_bytes = settings.max_json_bytes if media_type == JSON else settings.max_body_bytes
    body = Body(request.scope, request.receive, limit_bytes=limit_bytes, memory=context.bodies)
    uploads = UploadSet(
        context.store,
        lambda: UploadOwner(owner, ttl_s, expected_id=expected_id),
        max_bytes=settings.max_matrix_bytes,
        fingerprinted=key is not None,
    )
    reader = matrix_reader(request, media_type, body, uploads.open, context)

    def store(upload: Upload) -> Response:
        def commit() -> tuple[Response, str]:
            info = upload.commit()
            return _info_reply(info, is_new=info.expires_at - info.created_at <= ttl_s + MADE_NOW_S), info.id

        def again(first: str) -> Response:
            return _info_reply(context.store.info(first, owner=owner), is_new=False)

        return once(request, key, upload.digest if key else "", commit, again)

    reply = await receive(context, body, reader, uploads, store)
    await context.check_written()
    return reply


def _info_reply(info: MatrixInfo, *, is_new: bool) -> Response:
    """201 for a matrix that its owner did not have, 200 for an existing one."""
    return Response(info_json(info), 201 if is_new else 200, {"location": f"/v1/matrices/{info.id}"}, JSON)


def info_json(info: MatrixInfo) -> bytes:
    return orjson.dumps(
        {
            "id": info.id,
            "dtype": info.dtype,
            "shape": info.shape,
            "bytes": info.bytes,
            "created_at": datetime.fromtimestamp(info.created_at, UTC),
            "expires_at": datetime.fromtimestamp(info.expires_at, UTC),
        },
        option=orjson.OPT_UTC_Z,
    )


@router.get("/{matrix_id}", **manual.GET)
async def get_matrix(request: Request, matrix_id: manual.MatrixId) -> Response:
    context, owner = context_of(request), owner_of(request)

    def look() -> Response:
        info, packed = find_matrix(context, matrix_id, owner=owner)
        media_type = choose_type(listed(request, "accept"), offers_for(info.dtype, FILE_OFFERS))
        if media_type == JSON:
            check_match(listed(request, "if-match"))  # this form has no ETag
            return Response(info_json(info), 200, {"cache-control": "no-cache", "vary": "accept"}, JSON)
        shown = represent(StoredElements(info.id, info.dtype, info.shape, packed), media_type, tensor="matrix")
        return send(context, shown, Conditions.of(request), {})

    return await context.call(look)


@router.delete("/{matrix_id}", **manual.DELETE)
async def delete_one(request: Request, matrix_id: manual.MatrixId) -> Response:
    context = context_of(request)
    if is_conditional(request) and (etags := await context.call(_etags, request, matrix_id)):
        check_change(request, *etags)
    await context.call(delete_matrix, context, matrix_id, owner=owner_of(request))
    return Response(None, 204)
