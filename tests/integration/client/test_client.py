"""`Client` and `AsyncClient` on the whole service."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Thread
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from matmul_client import (
    AsyncClient,
    Busy,
    Client,
    Conflict,
    DeadlineExceeded,
    InvalidRequest,
    JobCancelled,
    NotFound,
    Unreachable,
)
from matmul_client.async_handles import AsyncBenchmark
from matmul_client.handles import Benchmark
from tests.integration.client.conftest import waiting
from tools.harness.api import Api, until
from tools.stack import Stack

RNG = np.random.default_rng(3)
A, B, X = RNG.standard_normal((30, 20)), RNG.standard_normal((20, 40)), RNG.standard_normal((40, 5))


def close(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> bool:
    return got.shape == wanted.shape and bool(np.allclose(got, wanted, rtol=1e-12))


def test_products(mm: Client) -> None:
    assert close(mm.matmul(A, B), A @ B)
    assert close(mm.matmul(A, A, transpose_a=True, kernel="cpu_blas", accuracy="fp64"), A.T @ A)
    assert close(mm.matmul(A, B, c=np.ones((30, 40)), alpha=2.0, beta=-1.0), 2 * A @ B - 1)
    eights = np.full((4, 4), 100, np.int8)
    assert np.array_equal(mm.matmul(eights, eights), np.full((4, 4), 40_000, np.int32))
    batch = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    assert mm.matmul(batch, batch, transpose_b=True).shape == (3, 4, 4)


def test_layers(mm: Client) -> None:
    """A bias of one axis is a row; of 16-bit operands what is added has the type of the float32 product."""
    row, column = np.linspace(-30.0, 30.0, 40), np.linspace(-30.0, 30.0, 30)[:, np.newaxis]
    assert close(mm.matmul(A, B, bias=row, activation="relu"), np.maximum(A @ B + row, 0))
    assert close(mm.matmul(A, B, bias=column, c=A @ B), 2 * (A @ B) + column)
    short = [each.astype(ml_dtypes.bfloat16) for each in (A, B, row)]
    got = mm.matmul(short[0], short[1], bias=short[2], output_dtype="float32")
    exact = short[0].astype(float) @ short[1].astype(float) + short[2].astype(float)
    assert got.dtype == np.float32 and np.allclose(got, exact, rtol=1e-5, atol=1e-5)
    stored = mm.upload(A.astype(np.float32))
    assert mm.matmul(stored, B.astype(np.float32), bias=row.astype("f"), output_dtype="float16").dtype == np.float16
    with pytest.raises(ValueError, match="bias cannot be a transpose"):
        mm.matmul(A, B, bias=stored.T)


def test_numbers_of_16_bits(mm: Client) -> None:
    a = A.astype(ml_dtypes.bfloat16)
    got = mm.matmul(a, a, transpose_b=True)
    assert got.dtype == ml_dtypes.bfloat16
    assert np.allclose(got.astype(float), a.astype(float) @ a.astype(float).T, rtol=0.02, atol=0.02)
    assert (mm.upload(a) @ a.T).result().dtype == ml_dtypes.bfloat16  # beside a reference, where no form carries it


def test_types_are_numpys(mm: Client) -> None:
    """Of integers, and of operands that differ in type."""
    ints = mm.matmul(np.array([[1, 2], [3, 4]]), np.array([[5, 6], [7, 8]], np.uint8))
    assert ints.dtype == np.int32 and ints.tolist() == [[19, 22], [43, 50]]
    large = mm.matmul([[16_777_217, 3]], [[100_000], [1]])
    assert large.dtype == np.float64 and large.tolist() == [[1_677_721_700_003.0]]
    mixed = mm.matmul(A.astype(np.float32), B)
    assert mixed.dtype == np.float64 and close(mixed, A.astype(np.float32) @ B)
    stored = mm.upload(np.arange(6).reshape(2, 3))
    assert np.array_equal(np.asarray(stored), [[0, 1, 2], [3, 4, 5]]) and np.asarray(stored @ stored.T).shape == (2, 2)
    with pytest.raises(TypeError, match="fetch it"):
        np.asarray(mm.submit(A, B))


def test_chains(mm: Client) -> None:
    a, b = mm.upload(A), mm.upload(B)
    assert (a.shape, a.dtype) == ((30, 20), "float64") and close(a.T.numpy(), A.T)
    assert close((a @ b @ X).result(), A @ B @ X)
    assert close((X.T @ (a @ b).T).result(), X.T @ (A @ B).T)
    link = a @ b
    job = link.submit()
    assert close((job @ X).result(), A @ B @ X) and close(link.T.result(), (A @ B).T)
    assert mm.matrix(a.id).shape == (30, 20)
    a.delete()
    with pytest.raises(NotFound):
        a.numpy()


def test_jobs(mm: Client) -> None:
    job = mm.submit(A, B)
    assert [event.name for event in job.events()][-1] == "succeeded"
    assert job.wait()["state"] == "succeeded" and close(job.result(), A @ B)
    assert mm.job(job.id).status()["kernel"] == "cpu_blas"
    assert job.id in [record["id"] for record in mm.jobs(limit=3, state="succeeded")]
    assert job.id in job._repr_html_()
    with pytest.raises(Conflict) as caught:
        job.cancel()
    assert caught.value.code == "wrong_state" and caught.value.request_id


def test_a_refusal_says_what_the_service_says(mm: Client) -> None:
    with pytest.raises(
        InvalidRequest, match=r"^a is 30×20 but b is 30×20: a's columns must equal b's rows.$"
    ) as caught:
        mm.matmul(A, A)
    assert (caught.value.status, caught.value.code) == (422, "shape_mismatch")
    with pytest.raises(InvalidRequest) as caught:
        mm.matmul(A, B, kernel="none")
    assert caught.value.field == "kernel"


def test_a_benchmark(mm: Client, measured: Benchmark) -> None:
    run = mm.job(measured.id)
    assert isinstance(run, Benchmark)
    assert {(point.n, point.status) for point in run} == {(16, "ok"), (32, "ok")}
    result = run.result()
    assert len(result.records) == 2 and result.plot is not None and "cpu_blas" in result._repr_html_()
    assert b"<html" in run.report() and mm.compare(run.id, run.id)["complete"]
    with pytest.raises(NotFound, match="there are: gflops"):
        run.plot("none")


def test_lists(mm: Client) -> None:
    assert "cpu_blas" in [kernel["name"] for kernel in mm.kernels()]
    assert mm.devices()[0]["device"]["device_class"] == "cpu"
    assert "ladder" in [preset["name"] for preset in mm.presets()]


def test_async(stack: Stack, measured: Benchmark) -> None:
    async def main() -> None:
        async with AsyncClient(stack.url) as mm:
            products = await asyncio.gather(*(mm.matmul(A, B) for _ in range(5)))
            assert all(close(product, A @ B) for product in products)
            a, b = await mm.upload(A), await mm.upload(B)
            assert close(await (a @ b @ X).result(), A @ B @ X)
            job = await (a @ b).submit()
            assert [event.name async for event in job.events()][-1] == "succeeded"
            assert close(await job.result(), A @ B) and close(await a.numpy(), A)
            run = await mm.job(measured.id)
            assert isinstance(run, AsyncBenchmark) and len([point async for point in run]) == 2
            assert len((await run.result()).records) == 2

    asyncio.run(main())


def test_no_wait_outlives_its_end(idle: Api) -> None:
    """By its deadline, or by the cancel of its task: the job goes with it. A job that was submitted stays."""

    async def cancelled() -> None:
        async with AsyncClient(idle.url) as mm:
            task = asyncio.create_task(mm.matmul(A, B))
            await asyncio.to_thread(until, lambda: waiting(idle) == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(cancelled())
    assert waiting(idle) == 0
    with Client(idle.url) as mm:
        with pytest.raises(DeadlineExceeded):
            mm.matmul(A, B, timeout=0.2)
        assert waiting(idle) == 0
        job = mm.submit(A, B)
        with pytest.raises(DeadlineExceeded):
            job.result(timeout=0.2)
        assert job.status()["state"] == "queued"
        with pytest.raises(Busy, match="jobs waiting"):  # its key's room is taken, and no retry fits the deadline
            mm.matmul(A, B, timeout=4.0)
        job.cancel()
        with pytest.raises(JobCancelled):
            job.result()


def test_the_api_is_killed_in_the_middle(tmp_path: Path) -> None:
    """One Idempotency-Key a call: what is asked again makes one job, and a stream of events goes on."""
    big = RNG.standard_normal((2400, 2400))

    async def main(own: Stack) -> None:
        made: list[np.ndarray[Any, Any]] = []
        async with AsyncClient(own.url) as mm:
            once_more = Client(own.url)

            async def events() -> list[str]:
                return [event.name async for event in job.events()]

            blocking = Thread(target=lambda: made.append(once_more.matmul(big, big)))
            blocking.start()
            called = asyncio.create_task(mm.matmul(big, big))
            while len(await mm.jobs()) < 2:
                pass
            job = await mm.submit(A, B)
            heard = asyncio.create_task(events())
            await asyncio.to_thread(own.restart_api)
            blocking.join()
            once_more.close()
            assert close((await called)[:20], big[:20] @ big) and close(made[0][:20], big[:20] @ big)
            names = await heard
            assert names.count("queued") == 1 and names[-1] == "succeeded"
            assert close(await mm.matmul(A, B), A @ B) and len(await mm.jobs()) == 4

    with Stack(tmp_path, settings={"cpu_threads": "1"}) as own:
        asyncio.run(main(own))
        assert own.api is not None
        own.api.kill()
        with pytest.raises(Unreachable, match="cannot be reached"), Client(own.url, max_retries=1) as once:
            once.matmul(A, B)
