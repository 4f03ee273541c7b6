"""Uploads in ranges whose end goes wrong: each can be completed again, and nothing is left behind."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import MatmulError, MatrixNotFound, StoreFull, StoreUnavailable, WrongState
from jobs.formats.elements import Array
from jobs.matrices import index as books
from jobs.matrices.file_store import FileMatrixStore
from jobs.matrices.interface import content_hasher
from jobs.matrices.ranged import complete as ending
from jobs.matrices.ranged import writer
from jobs.matrices.ranged.complete import complete_upload
from jobs.matrices.ranged.upload import Ranged, find_upload, open_upload, received
from jobs.matrices.ranged.writer import RangeWriter
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import StoreBench, make_bench, numbers

LARGE, SMALL = (
    (500, 500),
    (30, 20),
)  # of float32: a slot that no thread hashes, which a forked process has none of; a file
OWNER, TTL_S = "ada", 60.0


@pytest.fixture(params=["slots", "file"])
def bench(request: Any, valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[StoreBench]:
    bench = make_bench(request.param, valkey.url, key_prefix, tmp_path)
    yield bench
    bench.client.close()


def store_of(bench: StoreBench) -> FileMatrixStore:
    assert isinstance(bench.store, FileMatrixStore)
    return bench.store


def sent(bench: StoreBench, matrix: Array, matrix_id: str | None = None) -> Ranged:
    """An upload that all has come of."""
    upload = open_upload(store_of(bench), matrix_id, "float32", matrix.shape, owner=OWNER)
    send(bench, upload, matrix)
    return upload


def send(bench: StoreBench, upload: Ranged, matrix: Array) -> None:
    with closing(RangeWriter(store_of(bench), upload, OWNER, 0, upload.bytes)) as range_writer:
        range_writer.write(matrix.tobytes())
        range_writer.finish()


def id_of(matrix: Array) -> str:
    hasher = content_hasher("float32", matrix.shape)
    hasher.update(matrix.tobytes())
    return hasher.hexdigest()


def complete(bench: StoreBench, upload: Ranged) -> str:
    return complete_upload(store_of(bench), upload.id, owner=OWNER, ttl_s=TTL_S).id


def assert_whole(bench: StoreBench, upload: Ranged, matrix: Array) -> None:
    """It was completed; all that there is of it is the matrix."""
    info = bench.store.info(id_of(matrix), owner=OWNER)
    assert bench.get(info).tobytes() == matrix.tobytes()
    assert bench.store.used_bytes() == bench.store.used_bytes(owner=OWNER) == max(4096, matrix.nbytes)
    assert [name.partition(".")[0] for name in bench.kept()] == [info.id]
    with pytest.raises(MatmulError):
        find_upload(store_of(bench), upload.id, owner=OWNER)


@pytest.mark.parametrize("shape", [LARGE, SMALL], ids=str)
@pytest.mark.parametrize("error", [StoreUnavailable, StoreFull])
def test_books_that_could_not_be_written(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], error: type[MatmulError]
) -> None:
    def refuse(*_: object) -> None:
        raise error

    matrix = numbers(shape)
    upload = sent(bench, matrix, id_of(matrix))
    with monkeypatch.context() as patched, pytest.raises(error):
        patched.setattr(books.MatrixIndex, "claim", refuse)
        complete(bench, upload)
    assert received(store_of(bench), upload) == [(0, matrix.nbytes)]
    with pytest.raises(WrongState):
        send(bench, upload, matrix)
    assert complete(bench, upload) == id_of(matrix)
    assert_whole(bench, upload, matrix)


@pytest.mark.parametrize("call", ["write", "posix_fallocate"])
def test_a_disk_that_is_full_at_the_end(bench: StoreBench, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    matrix = numbers(LARGE)
    upload = sent(bench, matrix)
    with monkeypatch.context() as patched, pytest.raises(StoreFull):
        patched.setattr(os, call, full)
        complete(bench, upload)
    assert complete(bench, upload) == id_of(matrix)
    assert_whole(bench, upload, matrix)


@pytest.mark.parametrize("shape", [LARGE, SMALL], ids=str)
def test_a_process_that_is_killed_at_any_step_of_it(bench: StoreBench, shape: tuple[int, int]) -> None:
    steps = 0
    while True:
        matrix = numbers(shape, seed=steps)
        upload = sent(bench, matrix, id_of(matrix) if steps % 2 else None)
        is_done = completed_until(steps, bench, upload)
        with suppress(MatrixNotFound):  # once it is in the books
            complete(bench, upload)
        assert_whole(bench, upload, matrix)
        bench.store.delete(id_of(matrix), owner=OWNER)
        if is_done:
            break
        steps += 1
    assert steps > 5, "the steps were not seen"


def completed_until(steps: int, bench: StoreBench, upload: Ranged) -> bool:
    """Whether another process came to the end before it had made so many calls, at the next of which it dies."""
    pid = os.fork()
    if pid == 0:
        left = iter(range(steps))

        def dying(call: Any) -> Any:
            def made(*args: Any, **more: Any) -> Any:
                if next(left, None) is None:
                    os._exit(1)
                return call(*args, **more)

            return made

        for name in ("rename", "write", "pwrite", "posix_fallocate", "ftruncate", "utime"):
            setattr(os, name, dying(getattr(os, name)))
        fcntl.flock = dying(fcntl.flock)
        books.MatrixIndex.claim = dying(books.MatrixIndex.claim)  # type: ignore[method-assign]
        try:
            complete(bench, upload)
        except BaseException:
            os._exit(2)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status in (0, 1)
    return status == 0


def test_no_range_is_written_once_it_is_the_matrix(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is shared before it is published, and so is that of who writes a range."""
    matrix, flock = numbers(LARGE), fcntl.flock
    tried: list[int] = []
    upload = sent(bench, matrix)

    def lock(fd: int, kind: int) -> None:
        flock(fd, kind)
        if kind & fcntl.LOCK_SH and not tried:
            tried.append(kind)
            with pytest.raises(MatmulError):
                send(bench, upload, numbers(LARGE, seed=1))

    monkeypatch.setattr(fcntl, "flock", lock)
    assert complete(bench, upload) == id_of(matrix)
    assert tried
    assert_whole(bench, upload, matrix)


def test_a_range_that_comes_slowly_keeps_its_upload(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = numbers(LARGE)
    upload = open_upload(store_of(bench), None, "float32", LARGE, owner=OWNER)
    range_writer = RangeWriter(store_of(bench), upload, OWNER, 0, upload.bytes)
    ends = [upload.matrix.expires_at]
    for renew_s in (60.0, 0.0):
        monkeypatch.setattr(writer, "RENEW_S", renew_s)
        range_writer.write(matrix.tobytes()[:8])
        ends.append(find_upload(store_of(bench), upload.id, owner=OWNER).matrix.expires_at)
    range_writer.close()
    assert ends[0] == ends[1] < ends[2]


def test_reading_it_through_keeps_its_upload(bench: StoreBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: the sweep would remove its file."""
    matrix, touch = numbers(LARGE), books.MatrixIndex.touch
    ends: list[float] = []

    def touched(*args: Any) -> Any:
        ends.append(touch(*args).expires_at)
        return find_upload(store_of(bench), upload.id, owner=OWNER).matrix

    upload = sent(bench, matrix)
    monkeypatch.setattr(books.MatrixIndex, "touch", touched)
    monkeypatch.setattr(ending, "RENEW_S", 0.0)
    assert complete(bench, upload) == id_of(matrix)
    assert len(ends) == 2 and ends[0] < ends[1]


@pytest.mark.parametrize("shape", [LARGE, SMALL], ids=str)
def test_what_was_reserved_is_enough(
    valkey: EmbeddedServer, key_prefix: str, tmp_path: Path, shape: tuple[int, int]
) -> None:
    matrix = numbers(shape)
    room = max(4096, matrix.nbytes)
    bench = make_bench("file", valkey.url, key_prefix, tmp_path, store_bytes=room, store_bytes_per_key=room)
    upload = sent(bench, matrix)
    assert complete(bench, upload) == id_of(matrix)
    assert_whole(bench, upload, matrix)
    bench.client.close()
