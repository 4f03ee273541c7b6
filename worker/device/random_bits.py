"""Random bits for the check's vectors, from the operating system."""

from __future__ import annotations

import os
from threading import local

SEED_BYTES = 16
DRAWN_BYTES = 64 * SEED_BYTES  # at once: on some hosts a system call takes as long as a small product's check


class _OfThread(local):
    """Bytes that were drawn and are used for nothing yet."""

    drawn = b""
    used = 0


_of_thread = _OfThread()


def fresh_bits() -> int:
    """128 bits that were used for nothing before. They were drawn a moment ago, or with those of some products before;
    until now no one has seen them."""
    own = _of_thread
    if own.used >= len(own.drawn):
        own.drawn, own.used = os.urandom(DRAWN_BYTES), 0
    own.used += SEED_BYTES
    return int.from_bytes(own.drawn[own.used - SEED_BYTES : own.used], "little")


def _forget() -> None:
    """A process that is forked draws its own."""
    _of_thread.drawn, _of_thread.used = b"", 0


os.register_at_fork(after_in_child=_forget)
