"""The limits of a key on waiting jobs, jobs in flight and operations per minute: its own, or those of the settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobs.ledger.limits import Limits, Quota
from jobs.settings import Settings
from service.keys.ring import KeyRing


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits by key id, which is the owner of the key's jobs."""

    settings: Settings
    keys: KeyRing | None

    def queue(self, owner: str) -> Limits:
        own, settings = self._own(owner), self.settings
        return Limits(settings.max_queued_jobs, int(own.get("queued_jobs", settings.max_queued_jobs_per_key)))

    def quota(self, owner: str) -> Quota:
        own, settings = self._own(owner), self.settings
        return Quota(
            jobs=int(own.get("jobs", settings.max_jobs_per_key or 0)),
            bytes=int(own.get("job_bytes", settings.max_job_bytes_per_key or 0)),
            flops_per_minute=own.get("flops_per_minute", settings.max_flops_per_minute_per_key or 0.0),
        )

    def _own(self, owner: str) -> Mapping[str, float]:
        known = self.keys.find(owner) if self.keys is not None else None
        return known.limits if known is not None else {}
