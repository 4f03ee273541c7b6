"""`/ui/operations`: pause queues, drain workers. `/ui/dead-letters`: jobs that used up their attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from jobs.errors import InvalidRequest
from service.bodies.form import read_form
from service.context import context_of, owner_of
from service.dashboard.jobs.bulk import DEAD_LETTERS
from service.dashboard.jobs.list import Done
from service.dashboard.render import page
from service.http.access import check_role, role_of
from service.http.origins import check_origin
from service.keys import Role
from service.operations.dead_letters import MAX_SHOWN, dead_letters_of
from service.operations.steering import drain_worker, queues_of, switch_queue, switch_service

OPERATIONS = "/ui/operations"
FORM_BYTES = 4 << 10

router = APIRouter(include_in_schema=False)


@router.get(OPERATIONS)
async def operations(request: Request) -> Response:
    context = context_of(request)
    return page(
        request,
        "operations.html",
        queues=await context.call(queues_of, context),
        workers=await context.call(context.fleet.all),
        may_steer=role_of(request) >= Role.OPERATOR,
    )


@router.post(OPERATIONS)
async def steer(request: Request) -> Response:
    """Pauses, resumes or drains, then redirects to the page. The audit log has this function's name, and the address
    with the action.
    """
    check_origin(request.headers)
    check_role(role_of(request), Role.OPERATOR)
    form = await read_form(request, limit_bytes=FORM_BYTES)
    what, name = _word(form, "what"), _word(form, "name")
    context = context_of(request)
    match what:
        case "pause" | "resume" if name == "":
            await context.call(switch_service, context, what)
        case "pause" | "resume":
            await context.call(switch_queue, context, name, what)
        case "drain" | "undrain":
            await context.call(lambda: drain_worker(context, name, is_drained=what == "drain"))
        case _:
            raise InvalidRequest("what must be one of pause, resume, drain and undrain.", field="what")
    return RedirectResponse(f"{OPERATIONS}#{what}-{name or 'all'}", 303)


def _word(form: Mapping[str, Sequence[str]], name: str) -> str:
    return form.get(name, [""])[-1]


@router.get(DEAD_LETTERS)
async def dead_letters(request: Request, query: Annotated[Done, Query()]) -> Response:
    context = context_of(request)
    jobs = await context.call(dead_letters_of, context, owner_of(request))
    return page(request, "dead_letters.html", jobs=[job.record for job in jobs], most=MAX_SHOWN, query=query)
