"""NVIDIA's clients of the Open Inference Protocol, unchanged, against the whole service."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from tritonclient.utils import InferenceServerException

from kernels.catalog import CATALOG
from kernels.model.numerics import DTYPES
from tools.stack import Stack

ROOT = Path(__file__).resolve().parents[3]

# By datatype: what numpy holds it as, and the product's type.
DATATYPES: dict[str, tuple[Any, Any]] = {
    "FP32": (np.float32, np.float32),
    "FP64": (np.float64, np.float64),
    "FP16": (np.float16, np.float16),
    "BF16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16),
    "INT8": (np.int8, np.int32),
    "INT32": (np.int32, np.int32),
}
A = np.arange(-6, 6).reshape(3, 4)  # small whole numbers, whose products every type holds exactly
B = np.arange(-10, 10).reshape(4, 5)


@pytest.fixture(scope="module")
def server(stack: Stack) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(stack.url.removeprefix("http://"), concurrency=4) as client:
        yield client


def tensor(name: str, values: Any, datatype: str = "FP32", *, binary: bool = True, module: Any = triton) -> Any:
    array = np.asarray(values, DATATYPES[datatype][0])
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def operands(datatype: str = "FP32", *, binary: bool = True) -> list[Any]:
    return [tensor("A", A, datatype, binary=binary), tensor("B", B, datatype, binary=binary)]


def refusal(call: Any, *args: Any, **kwargs: Any) -> InferenceServerException:
    with pytest.raises(InferenceServerException) as caught:
        call(*args, **kwargs)
    return caught.value


def test_the_server_tells_what_it_is(server: triton.InferenceServerClient) -> None:
    assert server.is_server_live() and server.is_server_ready()
    about = server.get_server_metadata()
    assert about["name"] == "matmul-service" and "statistics" in about["extensions"]


def test_models_are_the_kernels_and_one_for_all(server: triton.InferenceServerClient) -> None:
    index = {model["name"]: model["state"] for model in server.get_model_repository_index()}
    of_real = (kernel.name for kernel in CATALOG if not all(DTYPES[dtype].is_complex for dtype in kernel.dtypes))
    assert index.keys() == {"matmul", *of_real}
    assert (index["matmul"], index["cpu_blas"], index["naive"]) == ("READY", "READY", "UNAVAILABLE")
    assert server.is_model_ready("matmul") and server.is_model_ready("cpu_blas", "1")
    assert not server.is_model_ready("naive") and not server.is_model_ready("matmul", "2")
    for name in index:
        about, config = server.get_model_metadata(name), server.get_model_config(name, "1")
        assert [each["name"] for each in about["inputs"]] == ["A", "B"]
        assert config["name"] == name and config["max_batch_size"] == 0
        assert config["input"][0]["data_type"] == f"TYPE_{about['inputs'][0]['datatype']}"
    assert server.get_model_metadata("hopper_int8")["outputs"][0]["datatype"] == "INT32"


@pytest.mark.parametrize("sends_binary", [True, False], ids=["binary in", "JSON in"])
@pytest.mark.parametrize("wants_binary", [True, False], ids=["binary out", "JSON out"])
@pytest.mark.parametrize("datatype", DATATYPES)
def test_every_datatype(
    server: triton.InferenceServerClient, datatype: str, sends_binary: bool, wants_binary: bool
) -> None:
    sends_binary |= datatype == "BF16"  # the client has no other way
    wanted = [triton.InferRequestedOutput("C", binary_data=wants_binary)]
    product = server.infer("matmul", operands(datatype, binary=sends_binary), outputs=wanted).as_numpy("C")
    assert product.dtype == DATATYPES[datatype][1]
    assert np.array_equal(product.astype(np.int64), A @ B)


def test_8_bit_floats_travel_as_bits(server: triton.InferenceServerClient) -> None:
    inputs = []
    for name, values in (("A", A), ("B", B)):
        bits = values.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
        inputs.append(triton.InferInput(name, list(bits.shape), "UINT8").set_data_from_numpy(bits))
    found = server.infer("matmul", inputs, parameters={"dtype": "float8_e4m3", "accuracy": "fp32"})
    assert np.array_equal(found.as_numpy("C"), A @ B)


def test_options_are_parameters(server: triton.InferenceServerClient) -> None:
    addend = np.ones((3, 5))
    inputs = [tensor("A", A.T), tensor("B", B), tensor("C", addend, binary=False)]
    asked = {"kernel": "cpu_blas", "transpose_a": True, "alpha": 0.5, "beta": -2, "accuracy": "fp32"}
    found = server.infer("matmul", inputs, parameters=asked)
    assert np.array_equal(found.as_numpy("C"), 0.5 * (A @ B) - 2 * addend)
    about = found.get_response()["parameters"]
    assert about["kernel"] == "cpu_blas" and about["kernel_ms"] > 0 and about["job"].startswith("job_")


def test_a_request_is_answered_as_it_asks(server: triton.InferenceServerClient) -> None:
    found = server.infer("cpu_blas", operands(), "1", request_id="seven", priority=7, timeout=60_000_000)
    reply = found.get_response()
    assert (reply["id"], reply["model_name"], reply["model_version"]) == ("seven", "cpu_blas", "1")
    batch = np.stack([A, 2 * A])
    assert np.array_equal(server.infer("matmul", [tensor("A", batch), tensor("B", B)]).as_numpy("C"), batch @ B)


def test_large_tensors(server: triton.InferenceServerClient) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.integers(-3, 4, (700, 900)), rng.integers(-3, 4, (900, 650))
    assert np.array_equal(server.infer("matmul", [tensor("A", a), tensor("B", b)]).as_numpy("C"), a @ b)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_compressed_bodies(server: triton.InferenceServerClient, encoding: str, binary: bool) -> None:
    big = np.tile(A, (100, 100))
    for a, b in ((A, B), (big, big.T)):
        inputs = [tensor("A", a, binary=binary), tensor("B", b, binary=binary)]
        algorithms = {"request_compression_algorithm": encoding, "response_compression_algorithm": encoding}
        assert np.array_equal(server.infer("matmul", inputs, **algorithms).as_numpy("C"), a @ b)


def test_several_at_a_time(server: triton.InferenceServerClient) -> None:
    asked = [server.async_infer("matmul", [tensor("A", k * A), tensor("B", B)]) for k in range(1, 9)]
    for k, each in enumerate(asked, 1):
        assert np.array_equal(each.get_result().as_numpy("C"), k * (A @ B))


def test_the_client_for_asyncio(stack: Stack) -> None:
    async def talk() -> None:
        async with triton_aio.InferenceServerClient(stack.url.removeprefix("http://")) as client:
            assert await client.is_server_live() and await client.is_model_ready("matmul")
            assert (await client.get_model_metadata("matmul"))["versions"] == ["1"]
            assert (await client.get_model_config("matmul"))["max_batch_size"] == 0
            for encoding in (None, "gzip", "deflate"):
                inputs = [tensor("A", A, module=triton_aio), tensor("B", B, binary=False, module=triton_aio)]
                wanted = [triton_aio.InferRequestedOutput("C")]
                found = await client.infer(
                    "matmul", inputs, outputs=wanted, request_id="a", request_compression_algorithm=encoding
                )
                assert np.array_equal(found.as_numpy("C"), A @ B)
            for datatype in DATATYPES:
                for binary in (True,) if datatype == "BF16" else (True, False):
                    inputs = [
                        tensor(name, values, datatype, binary=binary, module=triton_aio)
                        for name, values in (("A", A), ("B", B))
                    ]
                    wanted = [triton_aio.InferRequestedOutput("C", binary_data=binary)]
                    product = (await client.infer("matmul", inputs, outputs=wanted)).as_numpy("C")
                    assert product.dtype == DATATYPES[datatype][1]
                    assert np.array_equal(product.astype(np.int64), A @ B)
            assert {each["name"] for each in await client.get_model_repository_index()} >= {"matmul", "naive"}
            before = (await client.get_inference_statistics("matmul"))["model_stats"][0]["inference_count"]
            with pytest.raises(InferenceServerException, match="missing"):
                await client.infer("matmul", inputs[:1])
            await client.infer("matmul", inputs)
            assert (await client.get_inference_statistics())["model_stats"][0]["inference_count"] > before

    asyncio.run(talk())


def test_refusals_are_sentences(server: triton.InferenceServerClient) -> None:
    inputs = operands()
    assert "There is no model" in refusal(server.infer, "nothing", inputs).message()
    assert "version 1 alone" in refusal(server.get_model_metadata, "matmul", "2").message()
    assert "No live worker serves naive" in refusal(server.infer, "naive", inputs).message()
    assert "Sequences are not offered" in refusal(server.infer, "matmul", inputs, sequence_id=3).message()
    wanted = [triton.InferRequestedOutput("C", class_count=2)]
    assert "no classes" in refusal(server.infer, "matmul", inputs, outputs=wanted).message()
    assert "runs the kernel" in refusal(server.infer, "cpu_blas", inputs, parameters={"kernel": "naive"}).message()
    assert "must equal b's rows" in refusal(server.infer, "matmul", [inputs[0], tensor("B", A)]).message()
    server.unregister_cuda_shared_memory()  # as clients do before they begin
    assert server.get_cuda_shared_memory_status() == []
    for call, args in (
        (server.load_model, ["matmul"]),
        (server.unload_model, ["matmul"]),
        (server.get_cuda_shared_memory_status, ["x"]),
        (server.register_cuda_shared_memory, ["x", b"x", 0, 16]),
        (server.get_trace_settings, []),
        (server.update_log_settings, [{}]),
    ):
        assert refusal(call, *args).message().endswith(".")


def test_an_idempotency_key_makes_one_product(client: httpx.Client) -> None:
    asked = {
        "inputs": [
            {"name": "A", "shape": [1, 2], "datatype": "FP32", "data": [[1, 2]]},
            {"name": "B", "shape": [2, 1], "datatype": "FP32", "data": [3, 4]},
        ]
    }
    headers = {"idempotency-key": "of /v2"}
    replies = [client.post("/v2/models/matmul/infer", json=asked, headers=headers) for _ in range(2)]
    assert [reply.json()["outputs"][0]["data"] for reply in replies] == [[11.0], [11.0]]
    assert replies[0].headers["location"] == replies[1].headers["location"]
    assert replies[1].headers["idempotent-replayed"] == "true"
    elsewhere = client.post("/v2/models/matmul/versions/1/infer", json=asked, headers=headers)
    assert elsewhere.status_code == 422 and "another request" in elsewhere.json()["error"]
    asked["inputs"][0]["data"] = [[1, 3]]
    other = client.post("/v2/models/matmul/infer", json=asked, headers=headers)
    assert other.status_code == 422 and other.json()["error"] == other.json()["detail"]


def test_the_example_of_the_docs(stack: Stack) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "inference.md").read_text(), re.M | re.S)
    text = example.replace("localhost:8000", stack.url.removeprefix("http://"))
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split()[:2] == ["[[32.", "32."]


@pytest.mark.parametrize("path", ["/v2/models/matmul/infer", "/v1/matmul"])
def test_an_answer_to_a_post_has_no_ranges(client: httpx.Client, path: str) -> None:
    """Nor is the version of the product's own bytes that of JSON with the product behind it."""
    inputs = [{"name": name, "shape": [1, 1], "datatype": "FP32", "data": [2]} for name in "AB"]
    asked = (
        {"inputs": inputs, "parameters": {"binary_data_output": True}} if "infer" in path else {"a": [[2]], "b": [[2]]}
    )
    reply = client.post(path, json=asked, headers={"accept": "application/octet-stream"})
    assert (reply.status_code, reply.content[-4:]) == (200, np.float32(4).tobytes())
    assert "accept-ranges" not in reply.headers
    assert ("etag" in reply.headers, reply.headers.get("vary")) == (
        (False, None) if "infer" in path else (True, "accept")
    )
