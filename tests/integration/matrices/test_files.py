"""What only the file store has: a directory."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jobs import disk
from jobs.errors import InvalidSettings, MatrixNotFound, StoreFull, StoreUnavailable
from jobs.matrices import file_store
from jobs.matrices.factory import make_matrix_store
from jobs.matrices.file_store import LEFTOVER_AGE_S
from jobs.redis.embedded import EmbeddedServer
from tests.support.stores import StoreBench, fresh_name, make_bench, numbers


@pytest.fixture
def bench(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> Iterator[StoreBench]:
    bench = make_bench("file", valkey.url, key_prefix, tmp_path)
    yield bench
    bench.client.close()


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Stands in for a full disk: longer files get an error of the same kind."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_no_other_user_can_look_in(bench: StoreBench) -> None:
    bench.put(numbers((3, 3)), name=fresh_name())
    bench.put(numbers((3, 3)))
    directory = bench.settings.store_dir
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert [stat.S_IMODE((directory / name).stat().st_mode) for name in bench.kept()] == [0o600, 0o600]


def test_a_directory_that_others_can_enter_is_refused(valkey: EmbeddedServer, key_prefix: str, tmp_path: Path) -> None:
    directory = tmp_path / "matrices"
    directory.mkdir(mode=0o755)
    with pytest.raises(InvalidSettings, match="mode 700"):
        make_bench("file", valkey.url, key_prefix, tmp_path)
    directory.rmdir()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    directory.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidSettings, match="mode 700"):
        make_bench("file", valkey.url, key_prefix, tmp_path)
    directory.unlink()
    directory.write_text("a file")
    with pytest.raises(InvalidSettings):
        make_bench("file", valkey.url, key_prefix, tmp_path)


def test_leftovers_are_swept_and_nothing_else(bench: StoreBench) -> None:
    info, named = bench.put(numbers((3, 3))), bench.put(numbers((4, 4)), name=fresh_name())
    directory = bench.settings.store_dir
    random = "0" * 32
    ours = [
        f"w_{random}.part",  # of a writer that died
        f"op_{random}",  # the remover died before it
        f"{info.id}.w_{random}",  # the writer died before the books knew, and another brought the same contents
        f"{random * 2}.w_{random}",
    ]
    foreign = ["notes.txt", "w_1.part", f"op_{random}.bak"]
    for name in [*ours, *foreign]:
        (directory / name).write_bytes(b"x")
    fresh = f"w_{'1' * 32}.part"  # someone is writing it
    for name in bench.kept():
        os.utime(directory / name, times=(0, 0))
    (directory / fresh).write_bytes(b"x")
    os.utime(directory / fresh, times=(0, (directory / fresh).stat().st_mtime - LEFTOVER_AGE_S + 60))
    before = set(bench.kept())
    swept = sum(bench.store.sweep(limit=3) for _ in range(6))
    assert swept == len(ours)
    assert set(bench.kept()) == before - set(ours)
    np.testing.assert_array_equal(bench.get(info), numbers((3, 3)))
    np.testing.assert_array_equal(bench.get(named), numbers((4, 4)))


def test_a_full_disk_is_said_and_leaves_nothing(bench: StoreBench) -> None:
    array = numbers((300, 300))
    for name in (None, fresh_name()):
        with largest_file(100_000), pytest.raises(StoreFull, match="disk"):
            bench.put(array, name=name)
    assert bench.kept() == []
    assert bench.store.used_bytes() == 0


def test_a_directory_that_is_gone_is_said(bench: StoreBench) -> None:
    bench.settings.store_dir.rmdir()
    with pytest.raises(StoreUnavailable, match="directory"):
        bench.put(numbers((3, 3)), name=fresh_name())
    assert bench.store.used_bytes() == 0


def test_a_directory_that_is_gone_is_made_again(bench: StoreBench) -> None:
    """By the next who looks: a probe, the sweep, or the one that found it gone, for whoever comes after it."""
    directory = bench.settings.store_dir
    gone = bench.put(numbers((2, 2)), name=fresh_name())
    looks = (bench.store.check_ready, bench.store.sweep, lambda: failing_put(bench))
    for look in looks:
        shutil.rmtree(directory)
        look()
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
        info = bench.put(numbers((3, 3)), name=fresh_name())
        np.testing.assert_array_equal(bench.get(info), numbers((3, 3)))
    with pytest.raises(MatrixNotFound):
        bench.get(gone)


def failing_put(bench: StoreBench) -> None:
    with pytest.raises(StoreUnavailable):
        bench.put(numbers((3, 3)), name=fresh_name())


def test_a_directory_that_cannot_be_made_again_is_said(bench: StoreBench) -> None:
    """As the disk's fault, whatever is asked: Redis serves."""
    directory = bench.settings.store_dir
    info = bench.put(numbers((3, 3)), name=fresh_name())
    shutil.rmtree(directory)
    directory.write_text("a file")
    asks = (
        bench.store.check_ready,
        lambda: bench.get(info),
        lambda: next(bench.store.chunks(info.id, info.bytes)),
        lambda: bench.put(numbers((3, 3)), name=fresh_name()),
        bench.store.sweep,
    )
    for ask in asks:
        with pytest.raises(StoreUnavailable) as raised:
            ask()
        assert raised.value.resource == "disk"


@pytest.mark.parametrize("error", [errno.ENOMEM, errno.EMFILE, errno.EIO, errno.EACCES])
@pytest.mark.parametrize("call", ["os.open", "os.fstat", "os.pread", "mmap.mmap"])
def test_what_the_system_refuses_is_translated(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    info = bench.put(numbers((300, 300)), name=fresh_name())

    def refuse(*_: object, **__: object) -> None:
        raise OSError(error, os.strerror(error))

    with monkeypatch.context() as patched:
        patched.setattr(call, refuse)
        with pytest.raises(StoreUnavailable) as raised:
            bench.get(info)
    assert raised.value.resource == "disk"
    np.testing.assert_array_equal(bench.get(info), numbers((300, 300)))


def test_a_living_writer_s_file_is_no_leftover(bench: StoreBench) -> None:
    """Though the clock was set forward by years; once its writer is gone it is one."""
    store = bench.store
    with store.create("float32", (3, 3), owner="ada", ttl_s=60) as writer:
        writer.write(bytes(12))
        (name,) = bench.kept()
        os.utime(bench.settings.store_dir / name, times=(0, 0))
        assert store.sweep() == 0
        writer.write(bytes(24))
        info = writer.commit()
    assert bench.get(info).sum() == 0
    (bench.settings.store_dir / name).write_bytes(b"x")
    os.utime(bench.settings.store_dir / name, times=(0, 0))
    fresh = make_matrix_store(bench.settings, bench.client)
    assert fresh.sweep() == 1


@pytest.mark.parametrize("step_s", [10 * LEFTOVER_AGE_S, -10 * LEFTOVER_AGE_S])
def test_a_clock_that_is_set_makes_no_file_a_leftover(
    bench: StoreBench, step_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an operand that has its name, and whose job is not recorded yet."""
    name = fresh_name()
    (bench.settings.store_dir / name).write_bytes(b"x")
    stepped = SimpleNamespace(time=lambda: time.time() + step_s, monotonic=time.monotonic)
    monkeypatch.setattr(disk, "time", stepped)
    assert bench.store.sweep() == 0
    os.utime(bench.settings.store_dir / name, times=(0, 0))
    assert make_matrix_store(bench.settings, bench.client).sweep() == 1


def test_a_clock_that_was_set_forward_keeps_no_leftover_for_longer(
    bench: StoreBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a machine was paused for a day: files written since have times ahead of the store's clock."""
    name, clock = fresh_name(), SimpleNamespace(time=time.time, monotonic=time.monotonic)
    monkeypatch.setattr(disk, "time", clock)
    monkeypatch.setattr(file_store, "LOOK_ROUND_S", 0.0)
    path = bench.settings.store_dir / name
    path.write_bytes(b"x")
    os.utime(path, times=(0, time.time() + 86_400))
    assert bench.store.sweep() == 0
    clock.monotonic = lambda: time.monotonic() + LEFTOVER_AGE_S + 1
    os.utime(path, times=(0, time.time() + 86_500))  # it was written to meanwhile
    assert bench.store.sweep() == 0
    clock.monotonic = lambda: time.monotonic() + 2 * LEFTOVER_AGE_S + 2
    assert bench.store.sweep() == 1 and bench.kept() == []


def test_a_reader_keeps_what_is_deleted_under_it(bench: StoreBench) -> None:
    array = numbers((2000, 1000))
    info = bench.put(array)
    pieces = bench.store.chunks(info.id, info.bytes)
    first = next(pieces)
    bench.store.delete(info.id, owner="ada")
    assert b"".join([first, *pieces]) == array.tobytes()


def test_a_reader_keeps_what_is_written_again_under_it(bench: StoreBench) -> None:
    """A second attempt of a job puts a new file in the product's place; the mapped one does not change."""
    name = fresh_name()
    bench.put(numbers((9, 9), seed=1), name=name)
    with bench.store.open(name, "float32", (9, 9)) as read:
        bench.put(numbers((9, 9), seed=2), name=name)
        np.testing.assert_array_equal(read.elements, numbers((9, 9), seed=1))
