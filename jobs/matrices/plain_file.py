"""A plain file that is being written, and the directory of the `file` store."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from jobs.disk import remove, sync
from jobs.errors import InvalidSettings
from jobs.matrices.file_lock import EXCLUSIVE, open_file, open_locked

PART = ".part"  # how the name of one that is being written ends


class PlainFile:
    """A file that is being written, for one matrix only (unlike `Slot`). It is locked until it is published, so that no
    one takes it for a dead writer's file, whatever the clock says. All methods raise OSError.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        file = open_file(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if file is None:
            raise FileNotFoundError(path)
        self.file = file
        self.fd = file.fd
        file.lock(EXCLUSIVE)

    def publish(self, path: str, size: int, of_matrix: bytes = b"") -> None:
        """Makes it the matrix of that name; `size` bytes of elements and their digests have been written. A plain file
        needs no label."""
        os.rename(self._path, path)
        self.file.close()

    def drop(self) -> None:
        remove(self._path)
        self.file.close()


def remove_left(path: str) -> bool:
    """Removes the file of a dead writer; False if the writer is alive. Raises OSError."""
    file = open_locked(path, EXCLUSIVE)
    if file is None:
        return False
    remove(path)
    file.close()
    return True


def make_private(directory: Path) -> None:
    """Creates the directory, or checks that it belongs to this user: the default is in a world-writable directory, so
    another user may have created it first. Raises InvalidSettings.
    """
    try:
        if not directory.exists():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            sync(directory.parent)
        status = os.lstat(directory)
    except OSError as error:
        raise InvalidSettings(f"MATMUL_STORE_DIR: {directory} cannot be made: {error.strerror}.") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise InvalidSettings(
            f"MATMUL_STORE_DIR: {directory} must be a directory of this user that no other may enter (mode 700); "
            "change it, or name one that is not there yet."
        )
