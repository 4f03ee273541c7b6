"""What the API says of kernels' configs, and of one that cannot fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobs.models import new_id
from jobs.redis.embedded import EmbeddedServer
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kernel import CudaKernel
from kernels.resources import records_of
from tests.integration.api.test_jobs import problem
from tests.support.kernels.catalogue import max_registers, max_shared_memory
from tools.harness.api import FAKE_TTL_S, Api, running_api, until, worker_info

ASYNC = {"prefer": "respond-async"}


@pytest.fixture(scope="module")
def served(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """An API with a GPU on record that lacks a byte of shared memory for the largest config."""
    kernel, _, need = max_shared_memory("float32")
    with running_api(valkey, f"{new_id('configs')}:", tmp_path_factory.mktemp("api")) as running:
        gpu = worker_info(
            "gpu-0",
            kernels=(kernel.name, max_registers()[0].name),
            device_class="gpu",
            compute_capability=(9, 0),
            shared_bytes_per_block=need - 1,
        )
        running.registry.beat(gpu, FAKE_TTL_S)
        until(lambda: _devices(running) == 2)
        yield running


def _devices(api: Api) -> int:
    with api.client() as client:
        return len(client.get("/v1/devices").json()["devices"])


@pytest.fixture
def http(served: Api) -> Iterator[httpx.Client]:
    with served.client() as each:
        yield each


def product(kernel: str, dtype: str, config: Any) -> dict[str, Any]:
    operand = {"random": {"shape": [300, 300], "seed": 1}}
    return {"a": operand, "b": operand, "kernel": kernel, "dtype": dtype, "config": config}


def test_a_config_that_no_live_device_has_shared_memory_for_is_refused(http: httpx.Client) -> None:
    kernel, config, need = max_shared_memory("float32")
    refused = http.post("/v1/matmul", json=product(kernel.name, "float32", config), headers=ASYNC)
    told = problem(refused, 422, "invalid_config")
    assert told["field"] == "config"
    assert f"needs {need} bytes of shared memory a block for float32; the device has {need - 1};" in told["detail"]
    assert all(f"{name}={value}" in told["detail"] for name, value in config.items())
    assert http.post("/v1/matmul", json=product(kernel.name, "float32", {}), headers=ASYNC).status_code == 202


def test_a_config_that_no_thread_has_registers_for_is_refused(http: httpx.Client) -> None:
    kernel, config, dtype = max_registers()
    refused = http.post("/v1/matmul", json=product(kernel.name, dtype, config), headers=ASYNC)
    told = problem(refused, 422, "invalid_config")
    assert told["field"] == "config"
    assert f"registers of {dtype} sums in a thread, which has 224 for them" in told["detail"]


def test_the_list_shows_configs_and_defaults(http: httpx.Client) -> None:
    for shown in http.get("/v1/kernels").json()["kernels"]:
        kernel = BY_NAME[shown["name"]]
        assert shown["config_count"] == len(list(kernel.configs()))
        assert len(shown["defaults"]) == len(kernel.defaults) + 1
        assert shown["defaults"][-1]["config"] == {p.name: p.default for p in kernel.parameters}
        assert all(kernel.resolve_config(default["config"]) == default["config"] for default in shown["defaults"])
        assert shown["dtype_compute_capability"].keys() == kernel.dtype_compute_capability.keys()
        assert "resources" not in shown


def test_a_kernel_shows_what_each_config_takes(http: httpx.Client) -> None:
    shown = http.get("/v1/kernels/shared_tiled").json()
    (largest,) = (each for each in shown["resources"] if (each["dtype"], each["config"]) == ("float32", {"tile": 32}))
    assert 2 * 32 * 32 * 4 <= largest["static_shared_bytes"] <= 2 * 32 * 33 * 4  # two tiles, their rows padded or not
    assert largest["dynamic_shared_bytes"] == 0
    usage = largest["architectures"]["sm_90"]
    assert 16 <= usage["registers"] <= 64  # as 1,024 threads must have room
    assert (usage["local_bytes"], usage["spill_store_bytes"], usage["spill_load_bytes"]) == (0, 0, 0)
    assert http.get("/v1/kernels/cpu_blas").json()["resources"] == []


@pytest.mark.parametrize("kernel", [k for k in CATALOG if isinstance(k, CudaKernel)], ids=lambda kernel: kernel.name)
def test_every_kernel_of_ours_shows_them(kernel: CudaKernel, http: httpx.Client) -> None:
    table = records_of(kernel.name)
    assert table is not None
    assert len(http.get(f"/v1/kernels/{kernel.name}").json()["resources"]) == len(table.records) > 0


def test_the_manual_says_what_a_bucket_is(http: httpx.Client) -> None:
    told = http.get("/openapi.json").json()["paths"]["/v1/kernels/{name}"]["get"]["description"]
    assert "`wide`: at most 64 rows" in told
