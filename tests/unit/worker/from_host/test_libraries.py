"""Products by cuBLASMp and cuBLASXt on GPUs and by libraries that are not there: what they are told, and what becomes
of their refusals. The double holds each call against what the header demands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.played.cases import outcomes_of

ODD = {"m": 101, "n": 83, "k": 71, "dtype": "float32"}
TINY = {"m": 3, "n": 5, "k": 1, "dtype": "float32"}
BOTH = {"transpose_a": True, "transpose_b": True}
REGISTER, MATMUL, DEREGISTER = "cublasMpBufferRegister", "cublasMpMatmul", "cublasMpBufferDeregister"
MISSING = (
    "KernelUnavailable: This worker has no cuBLASMp of release 0.10 or newer: install the extra `cublasmp`, "
    "or use another kernel."
)
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "float32": ({"problem": ODD}, "split"),
    "float64, A transposed": ({"problem": ODD | {"dtype": "float64", "transpose_a": True}}, "split"),
    "bfloat16, B transposed": ({"problem": ODD | {"dtype": "bfloat16", "transpose_b": True}}, "split"),
    "float16, both transposed": ({"problem": ODD | {"dtype": "float16"} | BOTH}, "split"),
    "three GPUs": ({"problem": ODD, "ranks": 3}, "split"),
    "one GPU": ({"problem": ODD | BOTH, "ranks": 1}, "split"),
    "GPUs without any part": ({"problem": TINY, "ranks": 3}, "split"),
    "a batch, with one B for all": ({"problem": ODD | {"batch": 3, "a_batched": True}}, "split"),
    "nothing to sum": ({"problem": ODD | {"k": 0}}, "right"),
    "cuBLASXt": ({"problem": ODD | BOTH, "kernel": "cublas_xt"}, "right"),
    "a batch by cuBLASXt": (
        {"problem": ODD | {"dtype": "float64", "batch": 3, "b_batched": True}, "kernel": "cublas_xt"},
        "right",
    ),
    "a batch by cuBLASXt, called off meanwhile": (
        {"problem": TINY | {"batch": 5000, "a_batched": True}, "kernel": "cublas_xt", "cancelled": 1},
        "WrongState, then right",
    ),
    "no cuBLASXt": (
        {"problem": ODD, "kernel": "cublas_xt", "absent": 1},
        "KernelUnavailable: cuBLAS is not on this worker's path, so cuBLASXt is not either; use another kernel.",
    ),
    "no library": ({"problem": ODD, "absent": 1}, MISSING),
    "an older release": ({"problem": ODD, "release": 900}, MISSING),
    "GPUs that do not find each other": ({"problem": ODD, "nccl": 2}, "DeviceFault, 0 kept"),
}
# What fails before GPUs meet, or after they have parted: nothing is left, and the next product is there.
ALONE: dict[str, tuple[dict[str, Any], str]] = {
    "a library without memory": ({"fails": {"cublasMpMatmul_bufferSize": {"1": 2}}}, "OutOfDeviceMemory, then split"),
    "sizes it does not take": ({"fails": {"cublasMpMatmul_bufferSize": {"0": 7}}}, "KernelUnavailable, then split"),
    "no workspace on one GPU": ({"no_memory": {"1": 1}}, "OutOfDeviceMemory, then split"),
    "an upload that fails": ({"copy_fails": "up"}, "OutOfDeviceMemory, then split"),
    "a download that fails": ({"copy_fails": "down"}, "OutOfDeviceMemory, then split"),
    "a download that fails while another GPU still waits": (
        {"copy_fails": "down", "late": 1},
        "OutOfDeviceMemory, then split",
    ),
    "called off meanwhile": ({"cancelled": 1}, "WrongState, then split"),
}
# What fails while they are together: a fault, and what another GPU may use is kept until the process ends.
TOGETHER: dict[str, tuple[dict[str, Any], str]] = {
    "a GPU that fails while all multiply": ({"fails": {MATMUL: {"1": 5}}}, "DeviceFault, 2 kept"),
    "no memory while all multiply": ({"fails": {MATMUL: {"0": 2}}}, "DeviceFault, 2 kept"),
    "a GPU that fails at the end": ({"fails": {f"{MATMUL}.done": {"1": 5}}, "all_end": 1}, "DeviceFault, 2 kept"),
    "a registration that fails": ({"fails": {REGISTER: {"1": 6}}}, "DeviceFault, 2 kept"),
    "no memory to register": ({"fails": {REGISTER: {"0": 2}}}, "DeviceFault, 2 kept"),
    "registration refused by one GPU": ({"fails": {REGISTER: {"1": 7}}, "stuck_s": 0.5}, "DeviceFault, 2 kept"),
    "a deregistration that fails": ({"fails": {DEREGISTER: {"1": 6}}, "all_end": 1}, "DeviceFault, 1 kept"),
    "registration not supported": ({"fails": {REGISTER: {"0": 7, "1": 7}}}, "in sequence"),
    "NCCL fails to allocate": ({"no_memory": {"0": 3}, "all_end": 1}, "DeviceFault, 0 kept"),
}
CASES |= {name: ({"problem": ODD} | case, told) for name, (case, told) in (ALONE | TOGETHER).items()}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of("tests.support.played.library_products", {name: case for name, (case, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_library_errors_and_results_are_reported(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == CASES[name][1]
