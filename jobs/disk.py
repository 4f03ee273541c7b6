"""Plain files: complete writes, and translation of the system's errors into the service's own."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from jobs.errors import StoreFull, StoreUnavailable

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
UNUSABLE = "The directory that matrices are kept in cannot be used; try again, or tell whoever runs the service."
MOUNTS = Path("/proc/self/mounts")
_STARTED_S = time.time() - time.monotonic()


class _TranslatedDisk:
    """Holds nothing, so one serves all. A class: a product enters it up to ten times, and a generator would take ten
    times as long."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if not isinstance(error, OSError):
            return
        if error.errno in _NO_ROOM:
            raise StoreFull("The disk that matrices are kept on is full; delete some or try again later.") from error
        raise StoreUnavailable(UNUSABLE, resource="disk") from error


_TRANSLATED = _TranslatedDisk()


def translated_disk() -> _TranslatedDisk:
    """Translates OSError into StoreFull if the disk is full, otherwise into StoreUnavailable."""
    return _TRANSLATED


def write_all(fd: int, data: bytes | bytearray | memoryview, make_room: Callable[[], bool] = lambda: False) -> None:
    """Writes every byte; one `write` may take fewer than it is given, never more than 2 GiB.

    If the disk is full, `make_room` is called; it returns whether it freed any space.
    """
    view = memoryview(data)
    while view.nbytes:
        try:
            view = view[os.write(fd, view) :]
        except OSError as error:
            if error.errno != errno.ENOSPC or not make_room():
                raise


def path_of(directory: Path, name: str) -> str:
    """The path, as a string, of a file whose name is used only once, such as a matrix's.

    `pathlib` interns each part of each path, and CPython 3.12.0 to 3.12.6 keeps for good what is interned: a Path for
    each matrix would grow the process with every job (docs/decisions/0061-names-are-not-interned.md).
    """
    return f"{directory}/{name}"  # os.path.join looks for a slash in both


def remove(path: str) -> None:
    """Removes a file, if it exists. Raises OSError."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def sync(path: str | Path) -> None:
    """Returns once a file's contents, or a directory's entries, would survive a power cut. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def file_clock_s() -> float:
    """The current time for computing the age of files. It advances by the monotonic clock from the process's start, so
    that setting the system clock forward does not make files look old.
    """
    return min(time.time(), _STARTED_S + time.monotonic())


class FileAges:
    """How long files have not been written to. After the system clock was set, or a machine was paused, files have
    times ahead of `file_clock_s`, perhaps by days: the age of such a file is how long this object has known that time.
    """

    def __init__(self) -> None:
        self._ahead: dict[str, tuple[float, float]] = {}  # by path: the file's time, and when it was first seen

    def age_s(self, path: str) -> float:
        """Raises FileNotFoundError."""
        written, now = os.lstat(path).st_mtime, time.monotonic()
        if (age_s := file_clock_s() - written) >= 0:
            self._ahead.pop(path, None)
            return age_s
        known, since = self._ahead.get(path, (written, now))
        self._ahead[path] = (written, since if known == written else now)
        return now - self._ahead[path][1]

    def forget_all_but(self, paths: Iterable[str]) -> None:
        """Of files that are gone, nothing is kept."""
        self._ahead = {path: self._ahead[path] for path in paths if path in self._ahead}


def tmpfs_bytes(directory: Path) -> int:
    """The size of the tmpfs that contains the directory; 0 if it is not on a tmpfs, or on one without a limit."""
    if file_system(directory) != "tmpfs":
        return 0
    size = os.statvfs(directory)
    return size.f_blocks * size.f_frsize


def file_system(directory: Path) -> str:
    """The kind of file system that contains the directory, as Linux names it; empty if unknown."""
    inside = directory.resolve()
    kind, longest = "", 0
    try:
        mounts = [line.split() for line in MOUNTS.read_text().splitlines()]
    except OSError:
        return ""  # not Linux
    for _, at, kind_there, *_ in mounts:
        point = Path(at.encode().decode("unicode_escape"))  # blanks are written as octal numbers
        if inside.is_relative_to(point) and len(point.parts) >= longest:
            kind, longest = kind_there, len(point.parts)
    return kind
