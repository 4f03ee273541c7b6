"""The fields of a job that the ledger keeps as JSON, as far as this version can read them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import lru_cache

from pydantic import ValidationError

from jobs.base import UnknownRequest
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import JobFailed
from jobs.models import BenchmarkOutcome, JobError, MatmulRequest, Outcome, Progress
from jobs.redis.clock import microseconds
from jobs.redis.scripts import RedisScripts
from jobs.stored import NotUnderstood, read, read_parts, unknown_request
from kernels.model.numerics import DTYPES

Request = MatmulRequest | BenchmarkSpec | UnknownRequest

REQUESTS: Mapping[str, type[MatmulRequest | BenchmarkSpec]] = {"matmul": MatmulRequest, "benchmark": BenchmarkSpec}
KEPT_TEXT_BYTES = 2048  # of a request that is kept, at most
NO_PROGRESS = Progress(done=0, total=1)
UNREAD_ERROR = JobError(
    type=JobFailed.type, detail="The job failed; why was recorded by another version, which this one cannot read."
)


def request_to_run(kind: str, text: bytes) -> Request:
    """Parses a request to be computed. Raises NotUnderstood if this version does not know all of it, because it might
    compute something else.
    """
    try:
        return _kept_request(kind, text) if len(text) <= KEPT_TEXT_BYTES else REQUESTS[kind].model_validate_json(text)
    except (KeyError, ValidationError) as error:
        raise NotUnderstood from error


@lru_cache(maxsize=64)
def _kept_request(kind: str, text: bytes) -> Request:
    """Requests are never changed, so jobs that ask for the same product of the same matrices share one, with all that
    was derived from it."""
    return REQUESTS[kind].model_validate_json(text)


def request_to_show(kind: str, text: bytes) -> Request:
    """Parses a request to be shown. Unknown names are allowed, except of element types, which are needed for computing
    sizes.
    """
    try:
        found = read(REQUESTS[kind], text)
    except (KeyError, ValidationError):
        return unknown_request(text)
    dtypes = (found.a.dtype, found.b.dtype) if isinstance(found, MatmulRequest) else found.dtypes
    return found if DTYPES.keys() >= {*dtypes} else unknown_request(text)


def progress_of(fields: Mapping[str, bytes]) -> Progress:
    """A job's progress; that of an unstarted job if it cannot be read. Raises ValueError."""
    try:
        progress = read(Progress, fields["progress"]) if "progress" in fields else NO_PROGRESS
    except ValidationError:
        progress = NO_PROGRESS
    return _seeded(progress, fields)


def outcome_of(kind: str, text: bytes | None) -> Outcome | BenchmarkOutcome | None:
    """The outcome of a job; fields that cannot be read are None."""
    model: type[Outcome | BenchmarkOutcome] = BenchmarkOutcome if kind == "benchmark" else Outcome
    if text is None:
        return None
    found = read_parts(model, text)
    if isinstance(found, Outcome) and found.product is not None and found.product.dtype not in DTYPES:
        return found.model_copy(update={"product": None})
    return found


def error_of(text: bytes | None) -> JobError:
    """Why a job failed."""
    try:
        return read(JobError, text or b"")
    except ValidationError:
        return UNREAD_ERROR


def note_estimate(scripts: RedisScripts, job_id: str, *, seconds: float, measurements: int) -> None:
    """Raises StoreUnavailable, StoreFull."""
    scripts.run("note_estimate", job_id, microseconds(seconds), measurements)


def _seeded(progress: Progress, fields: Mapping[str, bytes]) -> Progress:
    """Fills in the estimate where an unfinished job has no progress yet."""
    if progress.eta_s is not None or "estimate" not in fields or fields["state"] not in (b"queued", b"running"):
        return progress
    began = int(fields["started"]) / 1e6 if fields["state"] == b"running" else None
    spent_s = 0.0 if began is None else max(0.0, time.time() - began)
    total = progress.total if "progress" in fields else max(1, int(fields.get("estimated", b"1")))
    left_s = max(0.0, int(fields["estimate"]) / 1e6 - spent_s)
    return progress.model_copy(update={"total": total, "eta_s": round(left_s, 1)})
