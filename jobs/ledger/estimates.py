"""What a benchmark was thought to take before it ran: its time to go until its own pace is known."""

from __future__ import annotations

import time
from collections.abc import Mapping

from jobs.models import Progress
from jobs.redis.clock import microseconds
from jobs.redis.scripts import RedisScripts


def note_estimate(scripts: RedisScripts, job_id: str, *, seconds: float, measurements: int) -> None:
    """Raises StoreUnavailable, StoreFull."""
    scripts.run("note_estimate", job_id, microseconds(seconds), measurements)


def seeded(progress: Progress, fields: Mapping[str, bytes]) -> Progress:
    """With the estimate in the place of what a job that has not ended does not know yet. Raises ValueError."""
    if progress.eta_s is not None or "estimate" not in fields or fields["state"] not in (b"queued", b"running"):
        return progress
    began = int(fields["started"]) / 1e6 if fields["state"] == b"running" else None
    spent_s = 0.0 if began is None else max(0.0, time.time() - began)
    total = max(progress.total, int(fields.get("estimated", b"0")), 1)
    left_s = max(0.0, int(fields["estimate"]) / 1e6 - spent_s)
    return progress.model_copy(update={"total": total, "eta_s": round(left_s, 1)})
