"""Libraries that take matrices from the host's memory: where they run, and what is said where they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobs.benchmarks.cases import expand
from jobs.fleet.workers import why_unserved
from kernels.catalog import BY_NAME
from kernels.entries.libraries import CUBLASMP
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import Problem
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose, choose_again
from tests.unit.jobs.test_benchmark_presets import spec_of
from tools.harness.api import worker_info
from tools.harness.benchmarks import H200

ONE = ARCHITECTURES["sm_90"].traits
TWO = replace(ONE, gpus=2)
GANG = replace(TWO, libraries=("cublasmp",))
LARGE = Problem(16_384, 16_384, 16_384, "float32")
OF_GPU = {"device_class": "gpu", "compute_capability": (9, 0)}


@pytest.mark.parametrize(
    ("name", "device", "reason"),
    [
        ("cublas_xt", ONE, None),
        ("cublas_xt", replace(ONE, device_class="cpu"), "runs on a GPU"),
        ("cublasmp", ONE, "a worker of 2 GPUs or more, as in `--device gpus:0,1`"),
        ("cublasmp", TWO, "needs cuBLASMp on the worker. Install the extra `cublasmp`"),
        ("cublasmp", GANG, None),
    ],
)
def test_where_it_runs_and_what_is_missing(name: str, device: DeviceTraits, reason: str | None) -> None:
    kernel = CUBLASMP if name == CUBLASMP.name else BY_NAME[name]
    said = kernel.unsupported_because(device)
    assert (said is None) is (reason is None) and (reason or "") in (said or "")


def test_an_element_type_that_needs_a_newer_gpu() -> None:
    turing = replace(GANG, compute_capability=(7, 5))
    assert "for bfloat16" in (CUBLASMP.unsupported_because(turing, "bfloat16") or "")
    assert CUBLASMP.unsupported_because(turing, "float16") is None


def test_it_runs_only_by_name_and_never_by_auto() -> None:
    for name in {"cublas_xt", "cublasmp"} & BY_NAME.keys():
        assert choose(name, NO_CONFIG, LARGE, "fp32", GANG).kernel.name == name
        with pytest.raises(NoKernelError, match="GPU"):
            choose(name, NO_CONFIG, LARGE, "fp32", replace(ONE, device_class="cpu"))
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        problem = replace(LARGE, dtype=dtype)
        accuracy = BY_NAME["cublas"].accuracy[problem.dtype]
        for choice in (choose("auto", NO_CONFIG, problem, accuracy, GANG), choose_again(problem, accuracy, GANG)):
            assert choice.kernel.name not in ("cublas_xt", "cublasmp")


def test_what_live_workers_lack() -> None:
    gpu = worker_info("gpu-0", kernels=("cublas",), **OF_GPU)
    gang = worker_info("gpus-0-1", kernels=("cublas", "cublasmp"), gpus=2, libraries=("cublasmp",), **OF_GPU)
    assert "2 GPUs or more" in (why_unserved(CUBLASMP, [worker_info(), gpu]) or "")
    assert why_unserved(CUBLASMP, [gpu, gang]) is None
    assert why_unserved(CUBLASMP, [worker_info()]) is None, "no GPU says anything of it"
    assert why_unserved(BY_NAME["cublas"], [gpu]) is None


def test_a_benchmark_that_names_one_skips_it_with_a_reason() -> None:
    spec = spec_of("grade", H200).model_copy(update={"kernels": ("cublas_xt",), "dtypes": ("float32",)})
    cases = [case for case in expand(spec, H200) if case.kernel == "cublas_xt"]
    assert cases and all("in the host's memory; a benchmark" in (case.skip or "") for case in cases)
    every = spec.model_copy(update={"kernels": "all"})
    assert not [case for case in expand(every, H200) if case.kernel in ("cublas_xt", "cublasmp")]
