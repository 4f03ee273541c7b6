"""`/ui/jobs/many`: cancels, retries or deletes the selected jobs, all that match a filter, or all dead letters, after
showing how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import AwareDatetime, Field, ValidationError
from starlette.responses import RedirectResponse

from jobs.errors import JobNotFound, MatmulError, StoreUnavailable
from jobs.ledger.interface import JobFilter
from jobs.models import Job
from jobs.states import REDRIVABLE, TERMINAL, JobState
from service.bodies.form import read_form
from service.bodies.options import options_error
from service.context import Context, context_of, owner_of
from service.dashboard.jobs.list import LIST, Action, Wanted, with_query
from service.dashboard.render import page
from service.http.origins import check_origin
from service.operations.dead_letters import MAX_SHOWN, dead_letters_of, forget_job
from service.submit.redrive import redrive

DEAD_LETTERS = "/ui/dead-letters"
FORM_BYTES = 64 << 10
MAX_PICKED = 200
MAX_AT_ONCE = 5_000  # takes some seconds
LOOK_JOBS = 200
CAN: dict[Action, tuple[JobState, ...]] = {
    "cancel": (JobState.QUEUED, JobState.RUNNING),
    "retry": tuple(sorted(REDRIVABLE)),
    "delete": tuple(sorted(TERMINAL)),
}

router = APIRouter(prefix=f"{LIST}/many", include_in_schema=False)


class Many(Wanted):
    """A bulk action: which jobs, and what to do with them. Without `scope`, the selected ones; `back`: the page where
    they were selected.
    """

    action: Action
    scope: Literal["picked", "all", "dead"] = "picked"
    back: Literal["", "dead"] = ""
    job: list[Annotated[str, Field(max_length=100)]] = Field(default_factory=list, max_length=MAX_PICKED)
    until: AwareDatetime | None = None  # limits the matching jobs to those that existed when they were counted

    @property
    def filters(self) -> Wanted:
        return Wanted(**self.model_dump(include=set(Wanted.model_fields)))

    @property
    def back_address(self) -> str:
        return DEAD_LETTERS if self.back else self.filters.address


@dataclass(frozen=True, slots=True)
class Counted:
    """The size of a bulk action."""

    jobs: Sequence[Job]
    passed_over: int  # selected, but not in a suitable state
    is_cut: bool  # there are more jobs than can be processed at once

    @property
    def until(self) -> datetime | None:
        return max((job.record.created_at for job in self.jobs), default=None)


@router.get("")
async def confirm(request: Request, many: Annotated[Many, Query()]) -> Response:
    """The confirmation page, with the number of jobs; changes nothing."""
    context = context_of(request)
    counted = await context.call(_count, context, owner_of(request), many)
    states = {state: sum(job.record.state is state for job in counted.jobs) for state in CAN[many.action]}
    return page(
        request,
        "jobs_many.html",
        many=many,
        counted=counted,
        states={state.value: count for state, count in states.items() if count},
        filters=many.filters.as_query(),
        back=many.back_address,
    )


@router.post("")
async def act(request: Request) -> Response:
    """Performs the action, then redirects to the list, which shows what was done."""
    check_origin(request.headers)
    many = _many_of(await read_form(request, limit_bytes=FORM_BYTES))
    context = context_of(request)
    changed, left = await context.call(_change_all, context, owner_of(request), many)
    outcome = {"did": many.action, "changed": str(changed), "left": str(left)}
    address = with_query(DEAD_LETTERS, outcome) if many.back else with_query(LIST, many.filters.as_query() | outcome)
    return RedirectResponse(address, 303)


def _many_of(form: Mapping[str, Sequence[str]]) -> Many:
    """Raises InvalidRequest."""
    values = {name: given if name == "job" else given[-1] for name, given in form.items()}
    try:
        return Many.model_validate(values)
    except ValidationError as error:
        raise options_error(error, Many, "") from None


def _count(context: Context, owner: str, many: Many) -> Counted:
    if many.scope == "dead":
        dead = [job for job in dead_letters_of(context, owner) if job.record.state in CAN[many.action]]
        return Counted(dead, 0, is_cut=len(dead) == MAX_SHOWN)
    if many.scope == "picked":
        picked = [job for job_id in dict.fromkeys(many.job) if (job := _find(context, job_id, owner)) is not None]
        ready = [job for job in picked if job.record.state in CAN[many.action]]
        return Counted(ready, len(dict.fromkeys(many.job)) - len(ready), is_cut=False)
    jobs: list[Job] = []
    for job in _matching(context, owner, many):
        if len(jobs) == MAX_AT_ONCE:
            return Counted(jobs, 0, is_cut=True)
        jobs.append(job)
    return Counted(jobs, 0, is_cut=False)


def _find(context: Context, job_id: str, owner: str) -> Job | None:
    try:
        return context.ledger.get(job_id, owner=owner)
    except JobNotFound:
        return None


def _matching(context: Context, owner: str, many: Many) -> Iterator[Job]:
    """The owner's jobs that match the filters and are in a state that the action applies to; other jobs are not
    read.
    """
    asked = many.where(owner)
    for state in CAN[many.action] if asked.state is None else {asked.state} & set(CAN[many.action]):
        where = JobFilter(owner, state, asked.kind, asked.kernel, asked.q)
        cursor: str | None = None
        while True:
            found = context.ledger.list(where, limit=LOOK_JOBS, cursor=cursor)
            yield from (job for job in found.jobs if many.until is None or job.record.created_at <= many.until)
            if (cursor := found.cursor) is None:
                break


def _change_all(context: Context, owner: str, many: Many) -> tuple[int, int]:
    """The number of jobs changed, and of jobs left unchanged because they are gone, in another state, or without
    operands. Raises StoreUnavailable; changes made before that remain.
    """
    counted = _count(context, owner, many)
    changed = sum(_change(context, owner, job, many.action) for job in counted.jobs)
    return changed, counted.passed_over + len(counted.jobs) - changed


def _change(context: Context, owner: str, job: Job, action: Action) -> bool:
    try:
        if action == "cancel":
            context.ledger.cancel(job.id, owner=owner)
        elif action == "delete":
            forget_job(context, job.id, owner)
        else:
            redrive(context, job.id, owner)
    except StoreUnavailable:
        raise
    except MatmulError:
        return False
    return True
