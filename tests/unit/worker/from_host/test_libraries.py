"""Products by cuBLASMp and cuBLASXt on GPUs and by libraries that are not there: what they are told, and what becomes
of their refusals. The double holds each call against what the header demands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.played.cases import outcomes_of

ODD = {"m": 101, "n": 83, "k": 71, "dtype": "float32"}
BOTH = {"transpose_a": True, "transpose_b": True}
TWICE = "12 descriptors"  # three matrices on two GPUs, two products: all given back
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "float32": ({"problem": ODD}, TWICE),
    "float64, A transposed": ({"problem": ODD | {"dtype": "float64", "transpose_a": True}}, TWICE),
    "bfloat16, B transposed": ({"problem": ODD | {"dtype": "bfloat16", "transpose_b": True}}, TWICE),
    "float16, both transposed": ({"problem": ODD | {"dtype": "float16"} | BOTH}, TWICE),
    "three GPUs": ({"problem": ODD, "ranks": 3}, "18 descriptors"),
    "one GPU": ({"problem": ODD | BOTH, "ranks": 1}, "6 descriptors"),
    "GPUs without any part": ({"problem": {"m": 3, "n": 5, "k": 1, "dtype": "float32"}, "ranks": 3}, "18 descriptors"),
    "a batch, with one B for all": (
        {"problem": ODD | {"batch": 3, "a_batched": True}},
        "36 descriptors",
    ),
    "nothing to sum": ({"problem": ODD | {"k": 0}}, "0 descriptors"),
    "cuBLASXt": ({"problem": ODD | BOTH, "kernel": "cublas_xt"}, "0 descriptors"),
    "a batch by cuBLASXt": (
        {"problem": ODD | {"dtype": "float64", "batch": 3, "b_batched": True}, "kernel": "cublas_xt"},
        "0 descriptors",
    ),
    "no cuBLASXt": ({"problem": ODD, "kernel": "cublas_xt", "absent": 1}, "KernelUnavailable"),
    "a GPU that fails while all multiply": ({"problem": ODD, "fails": {"1": 5}}, "DeviceFault"),
    "no memory while all multiply": ({"problem": ODD, "fails": {"0": 2}}, "DeviceFault"),
    "a GPU without memory beforehand": ({"problem": ODD, "refuses": {"1": 2}}, "OutOfDeviceMemory"),
    "sizes that the library does not take": ({"problem": ODD, "refuses": {"0": 7}}, "KernelUnavailable"),
    "GPUs that do not find each other": ({"problem": ODD, "nccl": 2}, "DeviceFault"),
    "no library": ({"problem": ODD, "absent": 1}, "KernelUnavailable"),
    "called off meanwhile": ({"problem": ODD, "cancelled": 1}, "WrongState"),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of("tests.support.played.library_products", {name: case for name, (case, _) in CASES.items()})


@pytest.mark.parametrize("name", CASES)
def test_library_errors_and_results_are_reported(outcomes: dict[str, str], name: str) -> None:
    assert outcomes[name] == CASES[name][1]
