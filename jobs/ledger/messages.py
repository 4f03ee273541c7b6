"""What the ledger's scripts send to the broker."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """How a message is put into the broker (`jobs.queue.message_format`)."""

    lists: str  # prefix of the broker's lists; the queue's name follows
    template: str  # a message as Celery reads it, for `string.format` in lua/common.lua
