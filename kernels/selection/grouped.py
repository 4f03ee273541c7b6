"""What `auto` takes for grouped products. No table has them, so it is the first that there is."""

from __future__ import annotations

from kernels.model.kernel import NO_CONFIG, DeviceTraits
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.candidates import Choice, NoKernelError, candidates

FASTEST_FIRST = ("hopper_bf16", "hopper_fp16", "cublas_tf32", "cublas", "pipelined", "warp_tiled", "cpu_blas")
# Of rows in an average group, from which on a call of the library for each is faster than one launch of a kernel on
# CUDA cores.
LIBRARY_ROWS = 256
ON_CUDA_CORES = ("pipelined", "warp_tiled")


def choose_grouped(problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    """Raises NoKernelError, ConfigError."""
    fit = {kernel.name: kernel for kernel in candidates(problem, accuracy, device)}
    kernel = next((fit[name] for name in FASTEST_FIRST if name in fit), None)
    if kernel is None:
        raise NoKernelError(f"no kernel multiplies {problem.dtype} groups to {accuracy} accuracy on this device.")
    config = kernel.resolve_config(NO_CONFIG, problem, device)
    return Choice(kernel, config, f"auto: {kernel.name} is the first kernel here that takes group_sizes.")
