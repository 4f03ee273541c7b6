"""System shared memory of /v2's clients: off unless a setting says what keys begin with, and checked at each use."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import httpx
import numpy as np
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException
from tritonclient.utils import shared_memory as shm

from jobs.errors import InvalidRequest
from jobs.ledger.interface import JobFilter
from jobs.models import MatmulRequest, new_id
from jobs.redis.embedded import EmbeddedServer
from jobs.states import JobState
from service.inference import regions
from service.inference.regions import DIRECTORY, MAX_REGIONS, Window
from tools.harness.api import Api, running_api, until

PREFIX = "/matmul-test-"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
B = np.arange(20, dtype=np.float32).reshape(4, 5)
pytestmark = pytest.mark.skipif(not os.access(DIRECTORY, os.W_OK), reason=f"there is no {DIRECTORY} to write to")


@contextmanager
def working(api: Api) -> Iterator[None]:
    """Multiplies what is asked for meanwhile, as a worker would."""
    stop = Event()

    def work() -> None:
        while not stop.wait(0.01):
            for job in api.ledger.list(JobFilter(state=JobState.QUEUED), limit=5).jobs:
                request = job.record.request
                assert isinstance(request, MatmulRequest)
                a, b = (api.store.load(str(ref.matrix), ref.dtype, ref.shape) for ref in (request.a, request.b))
                api.succeed(job.id, a @ b)

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def shared(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    directory = tmp_path_factory.mktemp("shared")
    with running_api(valkey, f"{new_id('shm')}:", directory, shared_memory_prefix=PREFIX) as api, working(api):
        yield api


@pytest.fixture
def server(shared: Api) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(shared.url.removeprefix("http://")) as client:
        yield client
        client.unregister_system_shared_memory()


@pytest.fixture
def key() -> Iterator[str]:
    """A key that no other test uses."""
    made = PREFIX + new_id("key")
    yield made
    with suppress(FileNotFoundError):
        os.unlink(DIRECTORY + made)


def file_of(key: str, contents: bytes) -> Path:
    path = Path(DIRECTORY + key)
    path.write_bytes(contents)
    return path


def inputs(name: str, a: int = A.nbytes, at: int = 0) -> list[Any]:
    """A and B one after the other in a region, A as if it had so many bytes."""
    first, second = triton.InferInput("A", [3, 4], "FP32"), triton.InferInput("B", [4, 5], "FP32")
    first.set_shared_memory(name, a, at)
    second.set_shared_memory(name, B.nbytes, at + A.nbytes)
    return [first, second]


def test_tensors_go_both_ways(server: triton.InferenceServerClient, key: str) -> None:
    product = A @ B
    with ExitStack() as stack:
        handle = shm.create_shared_memory_region("operands", key, 4096)
        stack.callback(shm.destroy_shared_memory_region, handle)
        shm.set_shared_memory_region(handle, [A, B], 64)
        server.register_system_shared_memory("operands", key, 4096 - 32, 32)
        server.register_system_shared_memory("operands", key, 4096 - 32, 32)  # a client that began anew
        wanted = triton.InferRequestedOutput("C")
        wanted.set_shared_memory("operands", product.nbytes, 1000)
        found = server.infer("matmul", inputs("operands", at=32), outputs=[wanted])
        told = found.get_output("C")
        assert (told["shape"], told["datatype"]) == ([3, 5], "FP32") and "data" not in told
        assert np.array_equal(shm.get_contents_as_numpy(handle, np.float32, [3, 5], 1032), product)
        in_body = server.infer("matmul", inputs("operands", at=32))
        assert np.array_equal(in_body.as_numpy("C"), product)
        told = {"name": "operands", "key": key, "offset": 32, "byte_size": 4064}
        assert server.get_system_shared_memory_status() == [told] == server.get_system_shared_memory_status("operands")
    server.unregister_system_shared_memory("operands")
    assert server.get_system_shared_memory_status() == []


def refusal(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **kwargs)
    assert caught.value.status()[0] == "4"
    return str(caught.value.message())


def test_only_files_that_are_meant_are_opened(server: triton.InferenceServerClient, key: str, tmp_path: Path) -> None:
    register = server.register_system_shared_memory
    (tmp_path / "secret").write_bytes(bytes(64))
    for wrong in ("/other", f"{PREFIX}../../etc/passwd", f"{PREFIX}a/b", "/", "", f"{PREFIX}\0", f"{PREFIX}é", "/../x"):
        assert "begins with" in refusal(register, "r", wrong, 16)
    os.symlink(tmp_path / "secret", DIRECTORY + key)
    assert "There is no shared memory" in refusal(register, "r", key, 16)
    os.unlink(DIRECTORY + key)
    os.mkfifo(DIRECTORY + key)
    assert "is no shared memory" in refusal(register, "r", key, 16)
    os.unlink(DIRECTORY + key)
    assert "There is no shared memory" in refusal(register, "r", key, 16)
    file_of(key, bytes(64))
    if os.geteuid() == 0:
        os.chown(DIRECTORY + key, 65534, 65534)
        assert "is no shared memory" in refusal(register, "r", key, 16)


@pytest.mark.parametrize(
    ("offset", "size"), [(0, 65), (64, 1), (1, 64), (2**63 - 1, 2**63 - 1), (-1, 4), (0, 0), (0, -1), (0, 2**63)]
)
def test_a_region_lies_in_its_file(server: triton.InferenceServerClient, key: str, offset: int, size: int) -> None:
    file_of(key, bytes(64))
    assert refusal(server.register_system_shared_memory, "r", key, size, offset)
    assert server.get_system_shared_memory_status() == []


def test_tensors_lie_in_their_region(server: triton.InferenceServerClient, key: str) -> None:
    file_of(key, bytes(A.nbytes + B.nbytes))
    server.register_system_shared_memory("r", key, A.nbytes + B.nbytes - 1)
    infer = server.infer
    assert "are more" in refusal(infer, "matmul", inputs("r"))
    assert "its shape and datatype make" in refusal(infer, "matmul", inputs("r", A.nbytes - 4))
    assert refusal(infer, "matmul", inputs("r", at=2**62))
    assert refusal(infer, "matmul", inputs("r", at=2**64))
    assert refusal(infer, "matmul", inputs("r", at=-8))
    assert "register it first" in refusal(infer, "matmul", inputs("another"))
    assert "registered already" in refusal(server.register_system_shared_memory, "r", key, 4)
    whole = [triton.InferInput(name, [2, 2], "FP32").set_data_from_numpy(np.ones((2, 2), np.float32)) for name in "AB"]
    wanted = triton.InferRequestedOutput("C")
    wanted.set_shared_memory("r", 15)
    assert "The product has 16 bytes" in refusal(infer, "matmul", whole, outputs=[wanted])
    wanted.set_shared_memory("r", 2**40)
    assert "are more" in refusal(infer, "matmul", whole, outputs=[wanted])


def test_a_file_cut_short_is_an_error_and_no_signal(server: triton.InferenceServerClient, key: str) -> None:
    path = file_of(key, A.tobytes() + B.tobytes())
    server.register_system_shared_memory("r", key, A.nbytes + B.nbytes)
    os.truncate(path, 50)
    assert "is shorter than" in refusal(server.infer, "matmul", inputs("r"))
    descriptor = os.open(path, os.O_RDWR)
    try:
        window = Window("r", descriptor, 40, 30)  # as of a request that had it open before
        with pytest.raises(InvalidRequest):
            list(window.chunks())
        with pytest.raises(InvalidRequest):
            window.write(memoryview(bytes(11)), 0)
    finally:
        os.close(descriptor)
    assert path.stat().st_size == 50
    os.unlink(path)
    assert "There is no shared memory" in refusal(server.infer, "matmul", inputs("r"))


def test_a_product_for_whose_pages_there_is_no_memory(
    server: triton.InferenceServerClient, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file gets pages when it is written to, and by then /dev/shm may be full."""
    file_of(key, A.tobytes() + B.tobytes() + bytes(60))
    server.register_system_shared_memory("r", key, A.nbytes + B.nbytes + 60)
    wanted = triton.InferRequestedOutput("C")
    wanted.set_shared_memory("r", 60, A.nbytes + B.nbytes)

    def pwrite(descriptor: int, data: memoryview, at: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(regions, "os", SimpleNamespace(**vars(os) | {"pwrite": pwrite}))
    told = refusal(server.infer, "matmul", inputs("r"), outputs=[wanted])
    assert told == "The product could not be written to the region 'r': No space left on device."


def test_a_request_goes_on_with_a_region_that_is_gone(valkey: EmbeddedServer, key: str, tmp_path: Path) -> None:
    path, product = file_of(key, A.tobytes() + B.tobytes()), A @ B
    where = {"shared_memory_region": "r", "shared_memory_byte_size": product.nbytes}
    asked = {
        "inputs": [tensor._get_tensor() for tensor in inputs("r")],
        "outputs": [{"name": "C", "parameters": where}],
    }
    prefix = f"{new_id('shm')}:"
    with (
        running_api(valkey, prefix, tmp_path, shared_memory_prefix=PREFIX) as api,
        api.client() as client,
        ThreadPoolExecutor() as pool,
        open(path, "rb") as file,
    ):
        region = {"key": key, "byte_size": A.nbytes + B.nbytes}
        assert client.post("/v2/systemsharedmemory/region/r/register", json=region).status_code == 200
        reply = pool.submit(client.post, "/v2/models/matmul/infer", json=asked)
        until(lambda: api.ledger.list(JobFilter(), limit=1).jobs)
        with api.client() as other:
            assert other.post("/v2/systemsharedmemory/unregister").status_code == 200
        os.unlink(path)
        api.succeed(api.ledger.list(JobFilter(), limit=1).jobs[0].id, product)
        assert reply.result().json()["outputs"] == [{"name": "C", "datatype": "FP32", "shape": [3, 5]}]
        assert file.read(product.nbytes) == product.tobytes()
        assert client.post("/v2/models/matmul/infer", json=asked).status_code == 404


def test_regions_are_bounded(server: triton.InferenceServerClient, shared: Api, key: str) -> None:
    file_of(key, bytes(8))
    with shared.client() as client:
        for number in range(MAX_REGIONS):
            body = {"key": key, "byte_size": 8}
            assert client.post(f"/v2/systemsharedmemory/region/r{number}/register", json=body).status_code == 200
    assert "unregister some" in refusal(server.register_system_shared_memory, "one more", key, 8)
    server.register_system_shared_memory("r0", key, 8)  # as often as one likes: it is kept for longer


def test_it_is_off_unless_the_setting_is_there(quiet: httpx.Client) -> None:
    register = {"key": f"{PREFIX}x", "offset": 0, "byte_size": 4}
    where = {"shared_memory_region": "r", "shared_memory_byte_size": 4}
    tensors = [{"name": name, "shape": [1, 1], "datatype": "FP32", "parameters": where} for name in "AB"]
    for reply in (
        quiet.get("/v2/systemsharedmemory/status"),
        quiet.post("/v2/systemsharedmemory/region/r/register", json=register),
        quiet.post("/v2/systemsharedmemory/unregister"),
        quiet.post("/v2/models/matmul/infer", json={"inputs": tensors}),
    ):
        assert reply.status_code == 403 and "System shared memory is off" in reply.json()["error"]
    assert "system_shared_memory" not in quiet.get("/v2").json()["extensions"]
