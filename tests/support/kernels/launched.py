"""What launches of our kernels come to, without a GPU: `python -m tests.support.kernels.launched` reads cases as JSON
lines, prints for each the calls that the driver would get, and ends.

CuPy is replaced, so this is for a process of its own. A compiled function is a name here, and memory an address.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest.mock import MagicMock

import numpy as np

MULTIPROCESSORS = 132
calls: list[dict[str, Any]] = []


class Memory:
    """An address nobody else has."""

    ends_at = 1 << 28

    def __init__(self, size: int) -> None:
        self.ptr, self.size = Memory.ends_at, size
        Memory.ends_at += -(-size // 512) * 512

    def memset_async(self, value: int, count: int) -> None:
        calls.append({"call": "memset", "value": value, "bytes": count})


class Function:
    """A compiled function that writes down how it is launched."""

    def __init__(self, name: str, options: tuple[str, ...]) -> None:
        self.name = self.ptr = name
        self.is_gated = "-DGATED" in options

    def __call__(self, grid: Any, block: Any, arguments: Any, shared_mem: int = 0) -> None:
        self.written(grid, arguments, is_dependent=False)

    def written(self, grid: Any, arguments: Any, *, is_dependent: bool) -> None:
        numbers = [int(one) for one in arguments if np.ndim(one) == 0]
        known = {"call": self.name, "gated": self.is_gated, "dependent": is_dependent}
        calls.append(known | {"grid": list(grid), "maps": len(arguments) - len(numbers), "numbers": numbers})


class Compiler:
    """As `worker.cuda.compile.Compiler`."""

    def function(self, program: Any, name: str) -> Function:
        return Function(name, program.options)


def install() -> None:
    """In place of CuPy."""
    cupy, inner = MagicMock(name="cupy"), MagicMock(name="cupy_backends")
    cupy.cuda.alloc = Memory
    cupy.cuda.Device.return_value.compute_capability = "90"
    cupy.cuda.Device.return_value.attributes = {"MultiProcessorCount": MULTIPROCESSORS}
    within = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api", "cupy_backends.cuda.libs")
    sys.modules.update({"cupy": cupy} | dict.fromkeys(within, inner))


def main() -> None:
    install()
    from kernels.catalog import BY_NAME
    from kernels.model.architectures import H200
    from kernels.model.kernel import CudaKernel
    from kernels.model.numerics import Problem
    from worker.cuda import edge, launch, transpose
    from worker.cuda.memory import allocate
    from worker.cuda.pitch import operand_layout, product_layout

    def dependent(function: Function, grid: Any, _block: Any, arguments: Any, _shared_bytes: int = 0) -> None:
        function.written(grid, arguments, is_dependent=True)

    for module in (launch, edge, transpose):
        setattr(module, "launch_dependent", dependent)  # noqa: B010  # a name that each has imported
    setattr(launch, "tensor_map", lambda *_, **__: np.zeros(1))  # noqa: B010  # the driver makes it
    prepared = launch.PreparedKernels(Compiler())  # type: ignore[arg-type]  # as one
    for line in sys.stdin:
        asked = json.loads(line)
        kernel, problem = BY_NAME[asked["kernel"]], Problem(**asked["problem"])
        assert isinstance(kernel, CudaKernel)
        config = kernel.resolve_config(asked.get("config", {}), problem, H200.traits)
        a = (problem.k, problem.m) if problem.transpose_a else (problem.m, problem.k)
        b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
        matrices = [operand_layout(problem.dtype, shape, dense=asked.get("dense", False)) for shape in (a, b)]
        on_a, on_b, on_c = (allocate(each) for each in (*matrices, product_layout(problem)))
        first = prepared.get(kernel, config, problem)
        first.launch(on_a, on_b, on_c)
        assert prepared.get(kernel, config, problem) is first
        print(json.dumps(calls))
        calls.clear()


if __name__ == "__main__":
    main()
