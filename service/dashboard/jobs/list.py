"""`/ui/jobs`: the list, newest first, with its filters in the URL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from jobs.base import Strict
from jobs.ledger.interface import JobFilter
from jobs.models import JobKind, JobRecord
from jobs.states import JobState
from kernels.catalog import KERNEL_NAMES
from service.context import Context, context_of, owner_of
from service.dashboard.render import page

LIST = "/ui/jobs"
PAGE_JOBS = 50
MAX_LOOKS = 12  # at the ledger for one page: a filter that few jobs match must not end in an empty page

Action = Literal["cancel", "retry"]

router = APIRouter(prefix=LIST, include_in_schema=False)


class Wanted(Strict):
    """Filters; an empty one is what a form sends for none."""

    state: JobState | Literal[""] = ""
    kind: JobKind | Literal[""] = ""
    kernel: str = Field("", max_length=100)
    q: str = Field("", max_length=100)

    @property
    def address(self) -> str:
        """The list with these filters."""
        return with_query(LIST, self.as_query())

    def as_query(self) -> dict[str, str]:
        """Those that filter."""
        return {name: str(value) for name, value in self.model_dump(mode="json").items() if value}

    def where(self, owner: str) -> JobFilter:
        return JobFilter(owner, JobState(self.state) if self.state else None, *self._rest())

    def _rest(self) -> tuple[str | None, str | None, str | None]:
        return self.kind or None, self.kernel or None, self.q or None


class ListQuery(Wanted):
    """Also where the page begins, and what was just done to many jobs."""

    cursor: str | None = Field(None, max_length=100)
    did: Action | None = None
    changed: int = Field(0, ge=0, le=10**9)
    left: int = Field(0, ge=0, le=10**9)


def with_query(path: str, values: dict[str, str]) -> str:
    return f"{path}?{urlencode(values)}" if values else path


@router.get("")
async def job_list(request: Request, query: Annotated[ListQuery, Query()]) -> Response:
    context = context_of(request)
    wanted = Wanted(**query.model_dump(include=set(Wanted.model_fields)))
    jobs, cursor = await context.call(one_page, context, wanted.where(owner_of(request)), query.cursor)
    return page(
        request,
        "jobs.html",
        jobs=jobs,
        query=query,
        filters=wanted.as_query(),
        newest=wanted.address if query.cursor else None,
        following=with_query(LIST, wanted.as_query() | {"cursor": cursor}) if cursor else None,
        states=[one.value for one in JobState],
        kinds=("matmul", "benchmark"),
        kernels=KERNEL_NAMES,
    )


def one_page(context: Context, where: JobFilter, cursor: str | None) -> tuple[Sequence[JobRecord], str | None]:
    """So many jobs, and where the next page begins; None at the end. Raises InvalidRequest, StoreUnavailable."""
    jobs: list[JobRecord] = []
    for _ in range(MAX_LOOKS):
        found = context.ledger.list(where, limit=PAGE_JOBS - len(jobs), cursor=cursor)
        jobs += [job.record for job in found.jobs]
        cursor = found.cursor
        if cursor is None or len(jobs) == PAGE_JOBS:
            break
    return jobs, cursor
