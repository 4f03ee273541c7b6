"""The `s3` store: matrices as objects of a bucket, and copies of them in each host's arena.

A write goes to the arena, as in the `file` store, and at the same time to the bucket; the matrix is readable once the
bucket has all of it. A read uses this host's copy; a worker without a copy fetches it into a slot, in several ranges in
parallel. The names of objects are those of the files: a matrix's name, or `<sha256>.<random>` for a content address
(docs/decisions/0046-object-store.md).
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jobs.disk import remove, translated_disk
from jobs.errors import MatrixDamaged, MatrixNotFound, StoreUnavailable
from jobs.matrices.file_source import FileSource, open_matrix
from jobs.matrices.file_store import LOOK_ROUND_S, FileMatrixStore, FileWriter
from jobs.matrices.index import Claim, Elements, MatrixIndex
from jobs.matrices.indexed_store import check_id
from jobs.matrices.interface import ElementSource, MatrixWriter, Place, parts_bytes
from jobs.matrices.plain_file import PART, PlainFile
from jobs.matrices.s3_store.copies import Copies
from jobs.matrices.s3_store.removal import ObjectRemoval
from jobs.matrices.s3_store.transfer import (
    BucketSource,
    StreamedUpload,
    digests_key,
    download,
    elements_key,
    read_all,
    staged_key,
)
from jobs.matrices.slots import Slot
from jobs.models import new_id
from jobs.object_store.bucket import PART_BYTES, Bucket


class ObjectMatrixStore(FileMatrixStore):
    """`copies_bytes` is the most that this host keeps; None for half of its file system. Other arguments are as in
    `FileMatrixStore`.

    Raises InvalidSettings as that does."""

    REREADS_AT_ONCE = SLOTS_ON_DISK = False

    def __init__(
        self,
        bucket: Bucket,
        directory: Path,
        index: MatrixIndex,
        *,
        max_matrix_bytes: int,
        copies_bytes: int | None = None,
        free_bytes: int | None = None,
        keeps_maps: bool = False,
    ) -> None:
        super().__init__(
            directory, index, max_matrix_bytes=max_matrix_bytes, free_bytes=free_bytes, keeps_maps=keeps_maps
        )
        self.bucket = bucket
        self.copies = Copies(self.directory, self.slots, copies_bytes)
        self.removal = ObjectRemoval(bucket, index)
        self._next_tidying = 0.0

    def check_ready(self) -> None:
        super().check_ready()
        with suppress(MatrixNotFound):
            self.bucket.size(elements_key("ready"))

    def _writer(self, claim: Claim, expected_id: str | None, place: Place | None) -> MatrixWriter:
        return ObjectWriter(self, claim, expected_id, place)

    def remove(self, orphan: Elements) -> None:
        """Other hosts remove their copies when they tidy up."""
        super().remove(orphan)
        self.removal.remove([elements_key(orphan.data), digests_key(orphan.data)])
        if "." in orphan.data:
            self.forget_staged(orphan.data)

    def forget_staged(self, data: str) -> None:
        """Removes an object that a caller sent by a URL."""
        self.removal.remove([staged_key(data)])

    def url(self, matrix_id: str, for_s: float) -> str:
        """A URL from which anyone can fetch the elements for `for_s` seconds. The caller must have checked access.
        Raises MatrixNotFound.
        """
        return self.bucket.sign_get(elements_key(self.index.elements(check_id(matrix_id)).data), for_s)

    # ---- room on this host ----
    def respect_bound(self, need_bytes: int) -> None:
        self.copies.make_room(need_bytes)

    def make_room(self) -> bool:
        if super().make_room():
            return True
        removed = self.copies.give_some_up()
        super().make_room()  # slots among them
        return removed > 0

    def slot(self, size: int, *, is_whole: bool = True) -> Slot | None:
        """As in `FileMatrixStore`. This comes before every file that is made, so this host's directory is seen to here,
        also where only one host has the sweeper.
        """
        self._tidy_up()
        slot = super().slot(size, is_whole=is_whole)
        if slot is None:
            with translated_disk():
                self.copies.expect(size)
        return slot

    def _tidy_up(self) -> None:
        """Removes copies of deleted matrices and the leftovers of dead writers on this host."""
        if time.monotonic() >= self._next_tidying:
            self._next_tidying = time.monotonic() + LOOK_ROUND_S
            super()._sweep_leftovers(1000)

    # ---- reading ----
    def _known(self, matrix_id: str, size: int) -> str:
        """The name of its objects and copies. Raises MatrixNotFound."""
        elements = self.index.elements(check_id(matrix_id))
        if elements.bytes != size:
            raise MatrixNotFound
        return elements.data

    def _copy(self, data: str, size: int) -> FileSource | None:
        with translated_disk(), suppress(MatrixNotFound):
            source = open_matrix(self.path(data), size, data.partition(".")[0])
            os.utime(source.file.fd, ns=(now := time.time_ns(), now))  # finer than the clock of the file system
            return source
        return None

    def _opened(self, matrix_id: str, size: int) -> FileSource:
        data = self._known(matrix_id, size)
        if (source := self._copy(data, size)) is not None:
            return source
        with translated_disk(), self.copies.fetching(data):
            while (source := self._copy(data, size)) is None:
                self._fetch(data, size)
        return source

    def _fetch(self, data: str, size: int) -> None:
        """Fetches this host's copy. Raises MatrixNotFound, MatrixDamaged, StoreFull, StoreUnavailable."""
        file = self.in_directory(
            lambda: self.slot(size) or PlainFile(self.path(new_id("w") + PART)),
        )
        try:
            self._receive(file, data, size)
            file.publish(self.path(data), size)
        except BaseException:
            file.drop()
            raise

    def _receive(self, file: Slot | PlainFile, data: str, size: int) -> None:
        """Receives the elements directly into the file that readers map, without a copy in between."""
        if isinstance(file, Slot):
            elements = self.memories.of(file.fd).array(file.file, size, writable=True).data
        else:
            self._allocate(file.fd, size + parts_bytes(size))
            elements = memoryview(mmap.mmap(file.fd, size) if size else b"")
        _put_all(file.fd, memoryview(download(self.bucket, data, elements)), size)

    def _allocate(self, fd: int, size: int) -> None:
        """All at once, so that writing to a map never meets a full disk."""
        try:
            os.posix_fallocate(fd, 0, size)
        except OSError as error:
            if error.errno != errno.ENOSPC or not self.make_room():
                raise
            os.posix_fallocate(fd, 0, size)

    @contextmanager
    def _source(self, matrix_id: str, size: int) -> Iterator[ElementSource]:
        data = self._known(matrix_id, size)
        if (copy := self._copy(data, size)) is None:
            yield BucketSource(self.bucket, data, size)
            return
        try:
            yield copy
        except MatrixDamaged:
            self._remove_copy(data)
            raise
        finally:
            copy.file.close()

    def forget_copy(self, matrix_id: str) -> None:
        with suppress(MatrixNotFound, StoreUnavailable):
            self._remove_copy(self.index.elements(check_id(matrix_id)).data)

    def _remove_copy(self, data: str) -> None:
        with translated_disk():
            remove(self.path(data))  # not freed: its memory may be at fault

    # ---- leftovers ----
    def _sweep_leftovers(self, limit: int) -> int:
        return super()._sweep_leftovers(limit) + self.removal.sweep()


def _put_all(fd: int, data: memoryview, at: int) -> None:
    while data.nbytes:
        done = os.pwrite(fd, data, at)
        data, at = data[done:], at + done


class ObjectWriter(FileWriter):
    """Sends a large matrix to the bucket while it is being written, if its name is known before it is complete."""

    def __init__(
        self,
        store: ObjectMatrixStore,
        claim: Claim,
        expected_id: str | None,
        place: Place | None,
        *,
        staged: str | None = None,
    ) -> None:
        """`staged` names elements that are in the bucket already; what is written are those."""
        self._objects = store
        self._staged = staged
        self._upload: StreamedUpload | None = None
        super().__init__(store, claim, expected_id, place)

    def _put(self, view: memoryview) -> None:
        super()._put(view)
        came = self._claim.bytes - self._missing_bytes
        known_id = self._claim.id if self._hasher is None else self._expected_id
        if self._upload is None and self._staged is None and known_id is not None and came >= PART_BYTES:
            self._upload = self._started(known_id)
        if self._upload is not None:
            self._upload.came(came)

    def _data_name(self, matrix_id: str) -> str:
        return self._staged or super()._data_name(matrix_id)

    def _started(self, matrix_id: str) -> StreamedUpload:
        assert self._file is not None, "nothing comes after the last byte"
        key = elements_key(self._data_name(matrix_id))
        return StreamedUpload(self._objects.bucket, key, self._file.fd, self._claim.bytes)

    def _settle(self, matrix_id: str, parts: bytes) -> str:
        """Returns once the bucket has both objects; only then does the matrix become readable."""
        assert self._file is not None, "a matrix is committed once"
        bucket, size = self._objects.bucket, self._claim.bytes
        data = self._data_name(matrix_id)
        if self._upload is None and size < PART_BYTES and self._staged is None:
            bucket.put(elements_key(data), read_all(self._file.fd, 0, size), is_new=True)
        elif self._staged is None:
            self._upload = self._upload or self._started(matrix_id)
            self._upload.finish()
        bucket.put(digests_key(data), parts)
        return super()._settle(matrix_id, parts)

    def _merge(self, data: str, kept_data: str) -> None:
        """Keeps the earlier upload's objects if they are equal to these; otherwise replaces them."""
        super()._merge(data, kept_data)
        bucket = self._objects.bucket
        for key_of in (elements_key, digests_key):
            if not bucket.is_same(key_of(data), key_of(kept_data)):
                bucket.copy(key_of(data), key_of(kept_data), self._claim.bytes)
        self._objects.removal.remove([elements_key(data), digests_key(data)])

    def abort(self) -> None:
        """A staged upload keeps its space, for another try."""
        if self._staged is None:
            super().abort()
        elif self._is_open:
            self._is_open = False
            self._drop()

    def _drop(self) -> None:
        if self._upload is not None:
            self._upload.give_up()
        super()._drop()
