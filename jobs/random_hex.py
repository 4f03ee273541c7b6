"""Random ids. The operating system's generator is asked for many at a time: a call takes longer than all else about an
id.
"""

from __future__ import annotations

import os
from threading import Lock

POOL_BYTES = 4096

_lock = Lock()
_pool = bytearray()


def random_hex(size: int) -> str:
    """`size` bytes (at most POOL_BYTES) that no one can guess, in hex. Each byte is given once, also where a
    process forks. Safe between threads."""
    with _lock:
        if len(_pool) < size:
            _pool[:] = os.urandom(POOL_BYTES)
        given = bytes(_pool[-size:])
        del _pool[-size:]
    return given.hex()


os.register_at_fork(after_in_child=_pool.clear)
