"""What a key may have waiting, in flight and asked for in a minute: its own limits, or else the settings'."""

from __future__ import annotations

from jobs.ledger.limits import Limits, Quota
from service.context import Context


def limits_of(context: Context, owner: str) -> Limits:
    settings = context.settings
    known = context.keys.find(owner) if context.keys is not None else None
    own = known.limits if known is not None else {}
    quota = Quota(
        jobs=int(own.get("jobs", settings.max_jobs_per_key or 0)),
        bytes=int(own.get("job_bytes", settings.max_job_bytes_per_key or 0)),
        flops_per_minute=own.get("flops_per_minute", settings.max_flops_per_minute_per_key or 0.0),
    )
    return Limits(settings.max_queued_jobs, int(own.get("queued_jobs", settings.max_queued_jobs_per_key)), quota)
