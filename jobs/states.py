"""The five states of a job and the moves between them.

    queued ──▶ running ──▶ succeeded | failed | cancelled
      ▲ │         │
      │ └─────────┼──────▶ cancelled
      └── retry ──┘

Terminal states change only by a redrive, which an owner asks for: failed | cancelled ──▶ queued.
"""

from __future__ import annotations

from enum import StrEnum


class JobState(StrEnum):
    QUEUED = "queued"  # recorded; waits for a worker
    RUNNING = "running"  # a worker holds its lease
    SUCCEEDED = "succeeded"  # the verified product is there
    FAILED = "failed"  # `error` says why
    CANCELLED = "cancelled"  # its owner cancelled it; there will be no product

    @property
    def is_terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
REDRIVABLE = frozenset({JobState.FAILED, JobState.CANCELLED})
