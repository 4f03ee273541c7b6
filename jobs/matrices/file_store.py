"""The `file` store: one file per matrix, in a directory that the API and the workers of one host share.

A file holds the elements, and after them the digests of their parts (`jobs/matrices/digest.py`), 8 bytes for each 16
KiB. It is written as `<random>.part`, and renamed when it is whole: to the matrix's name, or to `<sha256>.<random>` for
a content address. That random part is why contents can be deleted and uploaded again at the same time: the books say
which file is the one, and a remover only knows the name of its own.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from jobs.disk import translated_disk, write_all
from jobs.errors import InvalidSettings, MatrixNotFound
from jobs.formats.elements import STORAGE_DTYPES, matrix_bytes
from jobs.matrices.index import Claim, Elements, MatrixIndex
from jobs.matrices.indexed_store import ElementSource, IndexedMatrixStore, IndexedWriter, check_id, is_address
from jobs.matrices.interface import MatrixWriter, StoredMatrix, parts_bytes
from jobs.models import new_id
from kernels.model.numerics import DTypeName

PART = ".part"
_OURS = re.compile(
    r"w_[0-9a-f]{32}\.part|[a-z]{1,8}_[0-9a-f]{32}(_[0-9]{1,9})?|[0-9a-f]{64}\.w_[0-9a-f]{32}"
)  # names we give
LEFTOVER_AGE_S = 600.0  # a file that no one wrote to for so long and that the books do not know is no one's
LOOK_ROUND_S = 60.0  # how often the directory is read through for such files
POPULATE: int = getattr(mmap, "MAP_POPULATE", 0)  # Linux: map all pages at once instead of one fault after the other


class FileMatrixStore(IndexedMatrixStore):
    """Raises InvalidSettings if the directory cannot be one that only this user reads."""

    def __init__(self, directory: Path, index: MatrixIndex, *, max_matrix_bytes: int) -> None:
        super().__init__(index, max_matrix_bytes)
        self.directory = directory.absolute()
        _make_private(self.directory)
        self._unchecked: list[str] = []  # file names not yet held against the books, of the last reading
        self._next_reading = 0.0

    def path(self, data: str) -> Path:
        return self.directory / data

    def _writer(self, claim: Claim, expected_id: str | None) -> MatrixWriter:
        return _FileWriter(self, claim, expected_id)

    def remove(self, orphan: Elements) -> None:
        with translated_disk():
            self.path(orphan.data).unlink(missing_ok=True)

    def _data_name(self, matrix_id: str) -> str:
        """A named matrix is kept under its name, which saves the books a question."""
        return self.index.elements(matrix_id).data if is_address(check_id(matrix_id)) else matrix_id

    @contextmanager
    def _source(self, matrix_id: str, size: int) -> Iterator[ElementSource]:
        with self._opened(self._data_name(matrix_id), size) as fd:
            yield _FileSource(fd, size)

    @contextmanager
    def _opened(self, data: str, size: int) -> Iterator[int]:
        """A descriptor of the file that holds a matrix of `size` bytes. Raises MatrixNotFound, also for another size.

        What is deleted from now on can still be read.
        """
        try:
            fd = os.open(self.path(data), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            raise MatrixNotFound from None
        try:
            if os.fstat(fd).st_size != size + parts_bytes(size):
                raise MatrixNotFound
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def open(self, matrix_id: str, dtype: DTypeName, shape: tuple[int, ...]) -> Iterator[StoredMatrix]:
        size = matrix_bytes(dtype, shape)
        with self._opened(self._data_name(matrix_id), size) as fd:
            parts = _FileSource(fd, size).parts
            flags = mmap.MAP_SHARED | POPULATE
            raw = mmap.mmap(fd, size, flags=flags, prot=mmap.PROT_READ) if size else b""
        yield StoredMatrix(np.frombuffer(raw, STORAGE_DTYPES[dtype]).reshape(shape), parts)

    def _sweep_leftovers(self, limit: int) -> int:
        """Reads the directory through every LOOK_ROUND_S, and looks at `limit` of its files at a time."""
        if not self._unchecked and time.monotonic() >= self._next_reading:
            with translated_disk():
                self._unchecked = [name for name in os.listdir(self.directory) if _OURS.fullmatch(name)]
            self._next_reading = time.monotonic() + LOOK_ROUND_S
        names, self._unchecked = self._unchecked[:limit], self._unchecked[limit:]
        old = [name for name in names if self._is_old(name)]
        kept = self.index.data_names([name.partition(".")[0] for name in old]) if old else []
        leftovers = [name for name, data in zip(old, kept, strict=True) if name != data]
        for name in leftovers:
            self.remove(Elements(name, 0))
        return len(leftovers)

    def _is_old(self, name: str) -> bool:
        try:
            return time.time() - os.lstat(self.path(name)).st_mtime > LEFTOVER_AGE_S
        except FileNotFoundError:
            return False


class _FileSource(ElementSource):
    """An open file of the right size."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self.parts = np.frombuffer(self.read(size, size + parts_bytes(size)), "<u8")

    def read(self, start: int, stop: int) -> bytes:
        """One `pread` gives at most 2 GiB, and no more than the file has."""
        pieces: list[bytes] = []
        while start < stop:
            with translated_disk():
                piece = os.pread(self._fd, stop - start, start)
            if not piece:
                raise MatrixNotFound
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class _FileWriter(IndexedWriter):
    def __init__(self, store: FileMatrixStore, claim: Claim, expected_id: str | None) -> None:
        self._files = store
        self._random = new_id("w")
        self._part = store.path(self._random + PART)
        self._fd = -1
        super().__init__(store, claim, expected_id)

    def _begin(self) -> None:
        with translated_disk():
            self._fd = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def _put(self, view: memoryview) -> None:
        with translated_disk():
            write_all(self._fd, view)

    def _settle(self, matrix_id: str, parts: bytes) -> str:
        data = matrix_id if self._hasher is None else f"{matrix_id}.{self._random}"
        with translated_disk():
            write_all(self._fd, parts)
            self._close()
            os.rename(self._part, self._files.path(data))
        return data

    def _merge(self, data: str, kept_data: str) -> None:
        """These take the place of those: equal contents, and whole even where someone removed the file."""
        with translated_disk():
            os.replace(self._files.path(data), self._files.path(kept_data))

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _drop(self) -> None:
        """What was renamed already is left to the sweep: a named file may be another attempt's by now."""
        with suppress(OSError):
            self._close()
            self._part.unlink(missing_ok=True)


def _make_private(directory: Path) -> None:
    """The default lies in a directory that everyone may write to, so another user may have been there first."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(directory)
    except OSError as error:
        raise InvalidSettings(f"MATMUL_STORE_DIR: {directory} cannot be made: {error.strerror}.") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise InvalidSettings(
            f"MATMUL_STORE_DIR: {directory} must be a directory of this user that no other may enter (mode 700); "
            "change it, or name one that is not there yet."
        )
