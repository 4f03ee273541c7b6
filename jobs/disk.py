"""Plain files: whole writes, and the system's errors as ours."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.errors import StoreFull, StoreUnavailable

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def translated_disk() -> Iterator[None]:
    """Turns OSError into StoreFull where the disk is full, else into StoreUnavailable."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise StoreFull("The disk that matrices are kept on is full; delete some or try again later.") from error
        raise StoreUnavailable("The directory that matrices are kept in cannot be used.") from error


def write_all(fd: int, data: bytes | bytearray | memoryview) -> None:
    """Writes every byte; one `write` may take fewer than it is given, never more than 2 GiB."""
    view = memoryview(data)
    while view.nbytes:
        view = view[os.write(fd, view) :]
