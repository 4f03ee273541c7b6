"""Which kernels compute one triangle of a symmetric product, and the expected gain."""

from __future__ import annotations

from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel, LibraryKernel
from kernels.model.numerics import Problem
from kernels.model.triangle import MULTIPROCESSORS, mirror_clocks, whole

ONE_TRIANGLE = "The product is symmetric: one triangle is computed and mirrored; gflops: n·(n+1)·k."


def computes_triangle(kernel: Kernel, config: TileConfig, problem: Problem) -> bool:
    """`config` is a full one. Kernels that may leave a product to another compute all of it."""
    if isinstance(kernel, LibraryKernel):
        return problem.symmetric and problem.dtype in kernel.triangles
    if not isinstance(kernel, CudaKernel) or kernel.fallback is not None or not problem.symmetric:
        return False
    return kernel.plan(problem, config).mirrored is not None


def may_halve(kernel: Kernel) -> bool:
    """Whether tables tell what may become of a symmetric product by this kernel: it computes one triangle in some
    config, or it is a library's, which does as it does with other transposed operands."""
    return isinstance(kernel, LibraryKernel) or (isinstance(kernel, CudaKernel) and kernel.triangle is not None)


def triangle_gain(kernel: CudaKernel, config: TileConfig, problem: Problem, device: DeviceTraits) -> float:
    """How many times as fast this config should be on a symmetric product as the kernel's best is on a whole one, by
    its clocks; 1 where it computes all of it."""
    if kernel.clocks is None or not computes_triangle(kernel, config, problem):
        return 1.0
    count, usual = device.multiprocessors or MULTIPROCESSORS, kernel.resolve_config(NO_CONFIG, whole(problem), device)
    of_triangle = kernel.clocks(problem, config, count) + mirror_clocks(problem)
    return kernel.clocks(whole(problem), usual, count) / of_triangle
