"""A kernel that does not compile, or whose library is not there, is left out; the rest of a worker's kernels serves."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.errors import KernelUnavailable
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from worker.process.readiness import prove

OFFERED = ("naive", "hopper_bf16", "cublas_fp8_blocks", "complex_as_real", "cublas")


def test_the_rest_serves(gpu_settings: Settings, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    from worker.cuda import compile as compiling
    from worker.cuda.library import cublas_lt
    from worker.cuda.runner import CudaRunner
    from worker.cuda.sources import Program

    binary = compiling.Compiler.binary

    def compiled(self: compiling.Compiler, program: Program) -> bytes:
        if program.path.stem == "naive":
            raise KernelUnavailable("naive.cu does not compile here.")
        return binary(self, program)

    def missing() -> None:
        raise KernelUnavailable("libcublasLt is missing.")

    monkeypatch.setattr(compiling.Compiler, "binary", compiled)
    monkeypatch.setattr(cublas_lt, "_library", missing)
    runner = CudaRunner(gpu_settings)
    runs = tuple(name for name in OFFERED if name in runner.kernels)
    monkeypatch.setattr(CudaRunner, "kernels", runs)
    count = prove(runner, rng)
    left_out = {(each.kernel, each.dtype) for each in runner.device.left_out}
    expected = {("naive", dtype) for dtype in BY_NAME["naive"].dtypes} | {("cublas", "float8_e4m3")}
    assert left_out == expected | ({("cublas_fp8_blocks", "float8_e4m3")} if "cublas_fp8_blocks" in runs else set())
    assert count == 2 * (sum(len(BY_NAME[name].dtypes) for name in runs) - len(left_out))
