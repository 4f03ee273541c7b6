"""Messages of queued jobs, which the ledger's scripts send to the broker."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """How a message is put into the broker (`jobs.queue.message_format`)."""

    lists: str  # prefix of the broker's lists; the queue's name follows
    template: str  # a message as Celery reads it, for `string.format` in lua/common.lua


@dataclass(frozen=True, slots=True)
class JobMessage:
    """The Celery message of a queued job. `number` rises within a queue with each message sent; 0 or less: the message
    is not sent.
    """

    job_id: str
    attempt: int
    queue: str
    number: int
    timeout_s: float
    trace: str = field(default="", compare=False)  # the job's trace, set if the message was lost
