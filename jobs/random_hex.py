"""Random ids. Random bytes are requested from the operating system in large blocks, because the system call is the most
expensive part of making an id.
"""

from __future__ import annotations

import os
from threading import Lock

POOL_BYTES = 4096

_lock = Lock()
_pool = bytearray()


def random_hex(size: int) -> str:
    """`size` (at most POOL_BYTES) cryptographically random bytes, in hex. No byte is used twice, even after a fork.
    Safe to call from several threads.
    """
    with _lock:
        if len(_pool) < size:
            _pool[:] = os.urandom(POOL_BYTES)
        given = bytes(_pool[-size:])
        del _pool[-size:]
    return given.hex()


os.register_at_fork(after_in_child=_pool.clear)
