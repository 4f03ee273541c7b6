"""Bodies of this server's own forms: short, URL-encoded, and never written to disk."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request

from jobs.errors import MalformedBody
from service.bodies.body import Body
from service.bodies.reader import accepted_type
from service.http.listed import sole

URLENCODED = "application/x-www-form-urlencoded"
MAX_FIELDS = 1000


async def read_form(request: Request, *, limit_bytes: int) -> dict[str, list[str]]:
    """The form's values by field name. Raises UnsupportedMediaType, PayloadTooLarge, MalformedBody."""
    accepted_type(sole(request, "Content-Type"), URLENCODED)
    body = await Body(request.scope, request.receive, limit_bytes=limit_bytes).read()
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:  # not ASCII, not UTF-8 behind the %, or too many fields
        raise MalformedBody("The form could not be read; open the page again and send it from there.") from None
