"""File locks. The kernel releases them when a process dies, for whatever reason."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

SHARED, EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX


class LockedFile:
    """An open file, locked until `close` or until no one refers to this object, whichever comes first.

    The lock is released explicitly before the file is closed, because maps of the file hold duplicates of the
    descriptor, which would keep the lock.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._open = [fd]  # what is to be closed: it is taken out in one step, whatever thread is first

    def close(self) -> None:
        """May be called again."""
        with suppress(IndexError):
            fd = self._open.pop()
            fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def __del__(self) -> None:
        self.close()

    def lock(self, kind: int) -> bool:
        """Acquires or converts the lock without waiting. If it returns False, the file holds no lock."""
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_at(self, path: str) -> bool:
        """Whether this file currently has that name."""
        try:
            named, opened = os.lstat(path), os.fstat(self.fd)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def open_file(path: str, flags: int) -> LockedFile | None:
    """Opens a file without locking it; None if it does not exist. Raises OSError."""
    try:
        return LockedFile(os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except FileNotFoundError:
        return None


def open_locked(path: str, kind: int) -> LockedFile | None:
    """Opens and locks the file of that name; None if it does not exist or has a conflicting lock. Raises OSError. If
    the name passed to another file between opening and locking, that file is opened instead.
    """
    while (file := open_file(path, os.O_RDWR)) is not None:
        if not file.lock(kind):
            file.close()
            return None
        if file.is_at(path):
            return file
        file.close()
    return None
