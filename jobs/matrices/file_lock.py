"""Locks on files. The kernel releases them when a process dies, however it dies."""

from __future__ import annotations

import fcntl
import os
import weakref

SHARED, EXCLUSIVE = fcntl.LOCK_SH, fcntl.LOCK_EX


class LockedFile:
    """An open file, locked until `close` or until no one refers to this object, whichever comes first.

    The lock is given up before the file is closed: maps of the file hold copies of the descriptor, and with them the
    lock would stay.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.close = weakref.finalize(self, _release, fd)
        self.close.atexit = False

    def lock(self, kind: int) -> bool:
        """Without waiting; changes the kind of a lock that it has. Where this is False it has none any more."""
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def is_at(self, path: str) -> bool:
        """Whether this file has that name."""
        try:
            named, opened = os.lstat(path), os.fstat(self.fd)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def _release(fd: int) -> None:
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def open_file(path: str, flags: int) -> LockedFile | None:
    """Not yet locked; None where there is none. Raises OSError."""
    try:
        return LockedFile(os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600))
    except FileNotFoundError:
        return None


def open_locked(path: str, kind: int) -> LockedFile | None:
    """The file of that name, locked; None where there is none, or where it is locked otherwise. Raises OSError.

    Between opening and locking the name may have gone to another file; then that one is opened.
    """
    while (file := open_file(path, os.O_RDWR)) is not None:
        if not file.lock(kind):
            file.close()
            return None
        if file.is_at(path):
            return file
        file.close()
    return None
