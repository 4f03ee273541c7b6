"""What the store on an object store promises beyond the others: copies on hosts, and what is left after a death."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import numpy as np
import pytest
from structlog.testing import capture_logs

from jobs.errors import MatrixDamaged, MatrixNotFound, StoreUnavailable
from jobs.matrices.digest import Digest
from jobs.matrices.s3_store.transfer import elements_key
from jobs.matrices.slot_format import MIN_SLOT_BYTES
from jobs.object_store.bucket import PART_BYTES
from jobs.redis.embedded import EmbeddedServer
from tests.integration.matrices.objects.hosts import Hosts, objects_of, received
from tests.support.objects import SECRET, ObjectServer
from tests.support.stores import LARGE, StoreBench, nothing_is_left, numbers

MULTIPART = (PART_BYTES // 4 + 300_000,)  # of float32: more than one part


def test_a_second_use_on_a_host_moves_no_byte_nor_after_a_restart(host: Hosts) -> None:
    array = numbers(LARGE)
    info = host("first").put(array)
    second = host("second")
    with received(second, array.nbytes):
        np.testing.assert_array_equal(second.get(info), array)
    with received(second, 0):
        np.testing.assert_array_equal(second.get(info), array)
    again = host("second")
    with received(again, 0):
        np.testing.assert_array_equal(again.get(info), array)
    maker = host("first")
    with received(maker, 0):
        np.testing.assert_array_equal(maker.get(info), array)


def test_processes_of_a_host_fetch_a_matrix_once(host: Hosts) -> None:
    array = numbers(LARGE)
    info = host("first").put(array)
    benches = [host("second") for _ in range(4)]
    barrier = threading.Barrier(len(benches))

    def get(bench: StoreBench) -> None:
        barrier.wait()
        np.testing.assert_array_equal(bench.get(info), array)

    with ThreadPoolExecutor(len(benches)) as pool:
        list(pool.map(get, benches))
    came = sum(objects_of(bench).bucket.received_bytes for bench in benches)
    assert array.nbytes <= came <= array.nbytes * 1.01


def test_a_reply_reads_ranges_and_keeps_no_copy(host: Hosts) -> None:
    array = numbers(LARGE)
    info = host("first").put(array)
    second = host("second")
    raw = array.tobytes()
    with received(second, 16384):  # a part
        assert b"".join(second.store.chunks(info.id, len(raw), 20_000, 20_016)) == raw[20_000:20_016]
    assert second.copies() == []


def test_copies_are_bounded_and_those_used_last_stay(host: Hosts) -> None:
    arrays = [numbers((1 << 18,), seed=seed) for seed in range(6)]  # of 1 MiB
    infos = [host("first").put(array) for array in arrays]
    second = host("second", store_copies_bytes=4 << 20)
    for info in infos[:3]:
        second.get(info)
    second.get(infos[0])
    for info in infos[3:5]:
        second.get(info)
    kept = sum(path.stat().st_blocks * 512 for path in second.settings.store_dir.rglob("*") if path.is_file())
    assert kept <= 4 << 20
    with received(second, 0):
        second.get(infos[0])
    with received(second, arrays[1].nbytes):
        np.testing.assert_array_equal(second.get(infos[1]), arrays[1])


def test_plain_files_are_bounded_too(host: Hosts) -> None:
    """On a disk, where there are no slots; those that are written, as on a host of the API, like those fetched."""
    arrays = [numbers((1 << 18,), seed=seed) for seed in range(8)]  # of 1 MiB
    settings = {"store_copies_bytes": 4 << 20, "store_free_bytes": 0}
    first, second = host("first", **settings), host("second", **settings)
    infos = [first.put(array) for array in arrays]
    for info in infos:
        second.get(info)
    for bench in (first, second):
        kept = sum(path.stat().st_blocks * 512 for path in bench.settings.store_dir.rglob("*") if path.is_file())
        assert kept <= 4 << 20
    with received(second, 0):
        second.get(infos[-1])


def test_a_full_disk_makes_room_for_a_copy(host: Hosts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something else fills it."""
    infos = [host("first").put(numbers((1 << 18,), seed=seed)) for seed in range(4)]
    second = host("second", store_free_bytes=0)
    for info in infos[:3]:
        second.get(info)
    allocate = os.posix_fallocate

    def full(fd: int, offset: int, length: int) -> None:
        if len(second.copies()) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        allocate(fd, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", full)
    second.get(infos[3])


def test_hosts_that_only_write_remove_leftovers(host: Hosts) -> None:
    """Only one host of a cell has the sweep."""
    first = host("first")
    left = first.settings.store_dir / f"w_{'7' * 32}.part"
    left.write_bytes(bytes(1 << 20))
    os.utime(left, (0, 0))
    first.put(numbers((5,)))
    assert not left.exists()


def test_an_unfinished_product_is_no_copy(host: Hosts) -> None:
    """The bucket does not have it."""
    infos = [host("first").put(numbers((1 << 18,), seed=seed)) for seed in range(6)]  # of 1 MiB
    second = host("second", store_copies_bytes=4 << 20)
    name, shape = f"tiles_{'5' * 32}", (1, 1 << 18)
    with second.store.partial(name, "float32", shape) as partial:
        assert partial is not None
        partial.is_kept = True
        del partial
    for info in infos:
        second.get(info)
    with second.store.partial(name, "float32", shape) as partial:
        assert partial is not None and partial.is_found


def test_copies_of_deleted_matrices_go_from_other_hosts(host: Hosts) -> None:
    first, second = host("first"), host("second")
    info, other = first.put(numbers(LARGE)), first.put(numbers((5,)))
    second.get(info)
    (copy,) = second.copies()
    first.store.delete(info.id, owner="ada")
    assert len(first.kept()) == 1
    with pytest.raises(MatrixNotFound):
        second.get(info)
    os.utime(second.settings.store_dir / copy, (0, 0))
    host("second").get(other)  # whoever fetches looks for them
    assert len(second.copies()) == 1 and copy not in second.copies()


def test_a_damaged_copy_is_not_read_twice(host: Hosts) -> None:
    array = numbers(LARGE)
    info = host("first").put(array)
    second = host("second")
    second.get(info)
    (copy,) = second.copies()
    with open(second.settings.store_dir / copy, "r+b") as file:
        file.seek(4_000_000)
        file.write(b"\xff")
    with pytest.raises(MatrixDamaged):
        list(second.store.chunks(info.id, info.bytes))
    assert b"".join(second.store.chunks(info.id, info.bytes)) == array.tobytes()
    np.testing.assert_array_equal(second.get(info), array)


def test_what_comes_damaged_is_no_copy(host: Hosts) -> None:
    array = numbers(LARGE)
    first, second = host("first"), host("second")
    info = first.put(array)
    first.flip(4_000_000)
    with pytest.raises(MatrixDamaged):
        second.get(info)
    assert second.copies() == []
    first.put(array)
    np.testing.assert_array_equal(second.get(info), array)


@pytest.mark.parametrize("named", [True, False])
def test_parts_go_up_while_they_come(host: Hosts, named: bool) -> None:
    array = numbers(MULTIPART)
    name = "c_" + "0" * 32 + "_1" if named else None
    info = host("first").put(array, name=name)
    np.testing.assert_array_equal(host("second").get(info), array)


@pytest.mark.parametrize("shape", [(1, 100), LARGE, (1, *MULTIPART)])
def test_a_product_made_in_its_place_is_on_every_host(host: Hosts, shape: tuple[int, ...]) -> None:
    array, name = numbers(shape), "c_" + "4" * 32 + "_1"
    maker = host("first")
    with maker.store.place("float32", shape) as place:
        if place is None:
            assert array.nbytes < MIN_SLOT_BYTES
            maker.put(array, name=name)
        else:
            place.elements[:] = array
            digest = Digest(array.nbytes)
            digest.update(array.tobytes())
            with maker.store.create("float32", shape, owner="ada", ttl_s=60, name=name, place=place) as writer:
                writer.fill(digest.parts())
                writer.commit()
        del place
    info = maker.store.info(name, owner="ada")
    second = host("second")
    np.testing.assert_array_equal(second.get(info), array)
    np.testing.assert_array_equal(maker.get(info), array)


KILLED = """
import sys, time
from tests.integration.matrices.objects.test_objects import MULTIPART, numbers
from tests.support.stores import make_bench
from pathlib import Path
url, prefix, place, *pairs = sys.argv[1:]
bench = make_bench("objects", url, prefix, Path(place), **dict(pair.split("=", 1) for pair in pairs))
raw = numbers(MULTIPART).tobytes()
writer = bench.store.create("float32", MULTIPART, owner="ada", ttl_s=60, name="c_" + "0" * 32 + "_1")
writer.write(raw[:-4])
print("written", flush=True)
time.sleep(60)
"""


def test_a_killed_upload_leaves_nothing_readable(
    host: Hosts, valkey: EmbeddedServer, objects: ObjectServer, key_prefix: str, tmp_path: Path
) -> None:
    pairs = [f"{name}={value}" for name, value in objects.settings(key_prefix).items()]
    (tmp_path / "first").mkdir()
    command = [sys.executable, "-c", KILLED, valkey.url, key_prefix, str(tmp_path / "first"), *pairs]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    for bench in (host("first"), host("second")):
        assert bench.kept() == []
        with pytest.raises(MatrixNotFound):
            bench.store.chunks("c_" + "0" * 32 + "_1", MULTIPART[0] * 4)


def test_a_bucket_that_does_not_answer(host: Hosts, caplog: pytest.LogCaptureFixture) -> None:
    bench = host("first", s3_endpoint="http://127.0.0.1:9", s3_timeout_s=0.2)
    with capture_logs() as own_lines:
        with pytest.raises(StoreUnavailable, match="object store does not answer") as refused:
            bench.put(numbers((30, 30)))
        assert refused.value.resource == "objects" and refused.value.__cause__ is None
        assert nothing_is_left(host("first"))
        with pytest.raises(StoreUnavailable):
            bench.store.check_ready()
    assert SECRET not in caplog.text + repr(own_lines) + repr(bench.settings) + repr(vars(objects_of(bench).bucket))


@pytest.mark.parametrize("shape", [(3, 3), MULTIPART])
def test_a_bucket_that_is_not_there_is_no_missing_matrix(host: Hosts, shape: tuple[int, ...]) -> None:
    bench = host("first", s3_url="s3://no-such-bucket/prefix")
    with pytest.raises(StoreUnavailable):
        bench.put(numbers(shape), name=f"c_{'8' * 32}_1")
    assert bench.store.used_bytes() == 0


def test_urls_reach_the_bucket_itself(host: Hosts) -> None:
    array = numbers((7, 8))
    bench = host("first")
    bench.put(array)
    (name,) = bench.kept()
    url = objects_of(bench).bucket.sign_get(elements_key(name), 60)
    assert httpx.get(url).content == array.tobytes() and SECRET not in url
