"""What launches of our kernels come to, without a GPU: `python -m tests.support.kernels.launched` reads cases as JSON
lines, prints for each the calls that the driver would get, and ends.

CuPy is replaced, so this is for a process of its own. A compiled function is a name here, and memory an address.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any
from unittest.mock import MagicMock

MULTIPROCESSORS, STREAM, MAP_BYTES = 132, 7, 128
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
    """A compiled function: its name and whether it looks at a gate."""

    known: list[Function] = []  # noqa: RUF012  # by their addresses, from 1 on

    def __init__(self, name: str, options: tuple[str, ...]) -> None:
        self.name, self.is_gated = name, "-DGATED" in options
        Function.known.append(self)
        self.ptr = len(Function.known)

    def __call__(self, grid: Any, block: Any, arguments: Any) -> None:
        """As CuPy launches it."""
        numbers = [int(each) for each in arguments]
        calls.append({"call": self.name, "gated": self.is_gated, "grid": list(grid), "numbers": numbers})


sizes_at: dict[int, tuple[int, ...]] = {}  # of arguments, by where the driver finds them


def launched(config_at: Any, function_at: Any, places: Any, extra: None) -> int:
    """In place of cuLaunchKernelEx: reads what the driver would."""
    config, function = config_at._obj, Function.known[function_at.value - 1]
    assert config.stream == STREAM
    given = [ctypes.string_at(place, size) for place, size in zip(places, sizes_at[id(places)], strict=True)]
    attributes = [config.attributes[at] for at in range(config.attribute_count)]
    known = {
        "call": function.name,
        "gated": function.is_gated,
        "dependent": [(each.id, each.value) for each in attributes] == [(6, 1)],
        "grid": list(config.grid),
        "block": list(config.block),
        "maps": [int.from_bytes(each[:8], "little") for each in given if len(each) == MAP_BYTES],
        "numbers": [int.from_bytes(each, "little") for each in given if len(each) < MAP_BYTES],
    }
    calls.append(known)
    return 0


def pointed(place: Any, address: Any) -> int:
    """In place of cuTensorMapReplaceAddress: a map that holds the address alone."""
    ctypes.memmove(place, address.value.to_bytes(8, "little"), 8)
    return 0


class Compiler:
    """As `worker.cuda.compile.Compiler`."""

    def function(self, program: Any, name: str) -> Function:
        return Function(name, program.options)


def functions_called(launch: Callable[[], None]) -> int:
    """How many of the worker's own functions were called."""
    count = 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and "/worker/cuda/" in frame.f_code.co_filename

    sys.setprofile(seen)
    try:
        launch()
    finally:
        sys.setprofile(None)
    return count


def install() -> None:
    """In place of CuPy."""
    cupy, inner = MagicMock(name="cupy"), MagicMock(name="cupy_backends")
    cupy.cuda.alloc = Memory
    cupy.cuda.get_current_stream.return_value.ptr = STREAM
    cupy.cuda.Device.return_value.compute_capability = "90"
    cupy.cuda.Device.return_value.attributes = {"MultiProcessorCount": MULTIPROCESSORS}
    within = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.api", "cupy_backends.cuda.libs")
    sys.modules.update({"cupy": cupy} | dict.fromkeys(within, inner))


def install_driver() -> None:
    """In place of the driver's own functions."""
    from worker.cuda import bound_kernel, tensor_maps, transpose
    from worker.cuda import calls as calls_module

    class Arguments(calls_module.Arguments):
        """Its sizes are noted, which the driver knows from the function."""

        def __init__(self, sizes: Any) -> None:
            super().__init__(sizes)
            sizes_at[id(self.places)] = self.sizes

    for module in (bound_kernel, tensor_maps, transpose):
        setattr(module, "Arguments", Arguments)  # noqa: B010  # a name that each has imported
    setattr(calls_module, "_launch", lambda: launched)  # noqa: B010
    setattr(calls_module, "_clear", lambda: lambda *_: 0)  # noqa: B010
    setattr(tensor_maps, "_replace_address", lambda: pointed)  # noqa: B010
    setattr(tensor_maps, "_encode", lambda: lambda *told: pointed(told[0], told[3]))  # noqa: B010


def main() -> None:
    install()
    install_driver()
    from kernels.catalog import BY_NAME
    from kernels.model.architectures import H200
    from kernels.model.kernel import CudaKernel
    from kernels.model.kinds.composed import ComposedKernel
    from kernels.model.numerics import Problem
    from kernels.selection.candidates import Choice
    from worker.cuda import launch
    from worker.cuda.complex_products import ComplexProducts
    from worker.cuda.memory import Matrices, allocate
    from worker.cuda.pitch import operand_layout, product_layout

    compiler: Any = Compiler()
    prepared = launch.PreparedKernels(compiler)
    products = ComplexProducts(compiler, prepared, MagicMock(), lambda: H200.traits)

    def launcher_of(choice: Choice, problem: Problem, given: Matrices) -> Callable[[], None]:
        if isinstance(choice.kernel, ComposedKernel):
            return products.launcher(choice, problem, given)
        assert isinstance(choice.kernel, CudaKernel)
        first = prepared.get(choice.kernel, choice.config, problem)
        assert prepared.get(choice.kernel, choice.config, problem) is first
        return partial(first.launch, *given)

    for line in sys.stdin:
        asked = json.loads(line)
        kernel, problem = BY_NAME[asked["kernel"]], Problem(**asked["problem"])
        config = kernel.resolve_config(asked.get("config", {}), problem, H200.traits)
        a = (problem.k, problem.m) if problem.transpose_a else (problem.m, problem.k)
        b = (problem.n, problem.k) if problem.transpose_b else (problem.k, problem.n)
        matrices = [operand_layout(problem.dtype, shape, dense=asked.get("dense", False)) for shape in (a, b)]
        layouts = (*matrices, product_layout(problem))
        choice = Choice(kernel, config, "")
        launcher = partial(launcher_of, choice, problem)
        predicted = launch.kernel_bytes(choice, problem, H200.traits)
        for _ in range(asked.get("times", 1)):
            given = allocate(layouts[0]), allocate(layouts[1]), allocate(layouts[2])
            product = {"call": "product", "numbers": [each.address for each in given], "predicted": predicted}
            calls.append(product)
            begin = Memory.ends_at
            called = functions_called(launcher(given))
            product["allocated"] = Memory.ends_at - begin
        calls[-1]["functions"] = called
        print(json.dumps(calls))
        calls.clear()


if __name__ == "__main__":
    main()
