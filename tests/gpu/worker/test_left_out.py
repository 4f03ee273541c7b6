"""A kernel that does not compile, or whose library is not there, is left out; the rest of a worker's kernels serves."""

from __future__ import annotations

import numpy as np
import pytest

from jobs.errors import KernelUnavailable
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.kernel import LibraryKernel
from worker.process.readiness import prove


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
    traits = runner.device.traits
    pairs = ((BY_NAME[name], dtype) for name in runner.kernels for dtype in BY_NAME[name].dtypes)
    asked = [(kernel.name, dtype) for kernel, dtype in pairs if kernel.unsupported_because(traits, dtype) is None]
    count = prove(runner, rng)
    left_out = {(each.kernel, each.dtype): each.reason for each in runner.device.left_out}
    assert {*left_out} >= {("naive", dtype) for dtype in BY_NAME["naive"].dtypes} | {("cublas", "float8_e4m3")}
    of_others = {each: why for each, why in left_out.items() if each[0] != "naive"}
    assert all(isinstance(BY_NAME[name], LibraryKernel) for name, _ in of_others), "what is composed takes others"
    assert all(why.endswith("libcublasLt is missing.") for why in of_others.values())
    assert "naive" not in runner.kernels and {"cublas", "complex_as_real", "pipelined"} <= {*runner.kernels}
    assert count == 2 * (len(asked) - len(left_out))
