"""Prints how many products of some sizes share a launch on a GPU. CuPy is replaced, so this is for a process of its
own."""

from __future__ import annotations

from kernels.model.numerics import DTypeName, Problem
from tests.support.played.driver import install

SIZES: tuple[tuple[int, DTypeName], ...] = (
    *((n, "float32") for n in (16, 32, 64, 100, 128, 203, 256, 1024)),
    (1024, "float64"),
    (256, "int8"),
    (512, "bfloat16"),
)


def main() -> None:
    install()
    from worker.cuda.products.stacked import max_alike
    from worker.cuda.runner import HOST_CHECK_ELEMENTS, CudaRunner

    for n, dtype in SIZES:
        print(max_alike(Problem(n, n, n, dtype), HOST_CHECK_ELEMENTS, CudaRunner.max_launch_bytes))


if __name__ == "__main__":
    main()
