"""`/ui/jobs`: the list with its filters and its order in the URL, newest first unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field, field_validator

from jobs.base import Strict
from jobs.errors import InvalidRequest
from jobs.ledger.interface import JobFilter
from jobs.models import JobRecord
from jobs.states import JobState
from kernels.catalog import KERNEL_NAMES
from service.context import Context, context_of, owner_of
from service.dashboard.render import page

LIST = "/ui/jobs"
PAGE_JOBS = 50
MAX_LOOKS = 12  # ledger reads for one page, so that a filter that few jobs match does not give an empty page
SORTED_JOBS = 500  # newest matching jobs that are sorted in another order

Action = Literal["cancel", "retry", "delete"]
STATES = tuple(state.value for state in JobState)
KINDS = ("matmul", "benchmark")
SINCE = {"1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
# Sort orders and their keys; unknown values come last in both directions.
ORDERS: dict[str, Callable[[JobRecord], Any]] = {
    "created": lambda job: job.created_at,
    "what": lambda job: str(
        job.kernel or getattr(job.request, "kernel", None) or getattr(job.request, "title", "") or ""
    ),
    "state": lambda job: job.state.value,
    "took": lambda job: (job.finished_at - job.created_at).total_seconds() if job.finished_at else None,
    "gflops": lambda job: job.gflops,
}
SORTS = tuple(sign + name for name in ORDERS for sign in ("", "-"))
# Views that everybody has: words, filters.
VIEWS: tuple[tuple[str, dict[str, str]], ...] = (
    ("All", {}),
    ("Running", {"state": "running"}),
    ("Waiting", {"state": "queued"}),
    ("Failed today", {"state": "failed", "since": "24h"}),
    ("Benchmarks", {"kind": "benchmark"}),
    ("Slowest today", {"since": "24h", "sort": "-took"}),
)

router = APIRouter(prefix=LIST, include_in_schema=False)


def check_choice(field: str, value: str, choices: Sequence[str]) -> str:
    """Raises InvalidRequest, naming the choices, if the value is not one of them."""
    if value and value not in choices:
        raise InvalidRequest(f"There is no {field} {value!a}; there are {', '.join(choices)}.", field=field)
    return value


class Wanted(Strict):
    """The filters; an empty one means no filter. Raises InvalidRequest for an invalid one."""

    state: str = Field("", max_length=100)
    kind: str = Field("", max_length=100)
    kernel: str = Field("", max_length=100)
    since: str = Field("", max_length=100)
    q: str = Field("", max_length=100)

    @field_validator("state")
    @classmethod
    def _is_state(cls, value: str) -> str:
        return check_choice("state", value, STATES)

    @field_validator("kind")
    @classmethod
    def _is_kind(cls, value: str) -> str:
        return check_choice("kind", value, KINDS)

    @field_validator("kernel")
    @classmethod
    def _is_kernel(cls, value: str) -> str:
        return check_choice("kernel", value, ("auto", *KERNEL_NAMES))

    @field_validator("since")
    @classmethod
    def _is_since(cls, value: str) -> str:
        return check_choice("since", value, (*SINCE,))

    @property
    def address(self) -> str:
        """The address of the list with these filters."""
        return with_query(LIST, self.as_query())

    @property
    def oldest(self) -> datetime | None:
        """The earliest possible creation time of a matching job."""
        return datetime.now(UTC) - SINCE[self.since] if self.since else None

    def as_query(self) -> dict[str, str]:
        """The filters that are set, as query parameters."""
        return {name: str(value) for name, value in self.model_dump(mode="json").items() if value}

    def where(self, owner: str) -> JobFilter:
        return JobFilter(owner, JobState(self.state) if self.state else None, *self._rest())

    def _rest(self) -> tuple[str | None, str | None, str | None]:
        return self.kind or None, self.kernel or None, self.q or None


class Done(Strict):
    """The result of a bulk action."""

    did: Action | None = None
    changed: int = Field(0, ge=0, le=10**9)
    left: int = Field(0, ge=0, le=10**9)


class ListQuery(Wanted, Done):
    """The query of the list: filters, order, and start of the page."""

    sort: str = Field("", max_length=100)
    cursor: str | None = Field(None, max_length=100)

    @field_validator("sort")
    @classmethod
    def _is_sort(cls, value: str) -> str:
        return check_choice("sort", value, SORTS)


def with_query(path: str, values: dict[str, str]) -> str:
    return f"{path}?{urlencode(values)}" if values else path


@router.get("")
async def job_list(request: Request, query: Annotated[ListQuery, Query()]) -> Response:
    context = context_of(request)
    wanted = Wanted(**query.model_dump(include=set(Wanted.model_fields)))
    filters, is_sorted = wanted.as_query(), query.sort not in ("", "-created")
    where = wanted.where(owner_of(request))
    if is_sorted:
        jobs, is_cut = await context.call(in_order, context, where, query.sort, wanted.oldest)
        cursor = None
    else:
        jobs, cursor = await context.call(one_page, context, where, query.cursor, wanted.oldest)
        is_cut = False
    return page(
        request,
        "jobs.html",
        jobs=jobs,
        query=query,
        filters=filters,
        sorts={name: _sort_link(filters, query.sort, name) for name in ORDERS},
        sorted_of=SORTED_JOBS if is_cut else None,
        newest=wanted.address if query.cursor else None,
        following=with_query(LIST, filters | {"cursor": cursor}) if cursor else None,
        states=STATES,
        kinds=KINDS,
        kernels=KERNEL_NAMES,
        times=(*SINCE,),
        views=[(words, with_query(LIST, view), view == _view(filters, query.sort)) for words, view in VIEWS],
    )


def _view(filters: dict[str, str], sort: str) -> dict[str, str]:
    return filters | ({"sort": sort} if sort else {})


def _sort_link(filters: dict[str, str], now: str, name: str) -> tuple[str, str]:
    """The link of a column's head, and how the column is sorted now, as an ARIA value."""
    current = now or "-created"
    falls = current == f"-{name}"
    direction = "descending" if falls else "ascending" if current == name else "none"
    return with_query(LIST, filters | {"sort": name if falls else f"-{name}"}), direction


def in_order(
    context: Context, where: JobFilter, sort: str, oldest: datetime | None
) -> tuple[Sequence[JobRecord], bool]:
    """The first page, in that order, of the newest matching jobs, and whether older ones were left out."""
    jobs, cursor = one_page(context, where, None, oldest, count=SORTED_JOBS)
    read = ORDERS[sort.removeprefix("-")]
    known = sorted((job for job in jobs if read(job) is not None), key=read, reverse=sort.startswith("-"))
    return [*known, *(job for job in jobs if read(job) is None)][:PAGE_JOBS], cursor is not None


def one_page(
    context: Context, where: JobFilter, cursor: str | None, oldest: datetime | None = None, count: int = PAGE_JOBS
) -> tuple[Sequence[JobRecord], str | None]:
    """Up to `count` jobs, and the cursor of the next page; None at the end. Raises InvalidRequest, StoreUnavailable."""
    jobs: list[JobRecord] = []
    for _ in range(MAX_LOOKS):
        found = context.ledger.list(where, limit=min(200, count - len(jobs)), cursor=cursor)
        recent = [job.record for job in found.jobs if oldest is None or job.record.created_at >= oldest]
        jobs += recent
        cursor = found.cursor if len(recent) == len(found.jobs) else None  # older ones follow alone
        if cursor is None or len(jobs) == count:
            break
    return jobs, cursor
