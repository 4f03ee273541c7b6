"""What `auto` takes for grouped products: the first suitable kernel, because no table has them."""

from __future__ import annotations

from collections.abc import Mapping

from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import DeviceTraits, Kernel
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.candidates import Choice, NoKernelError, candidates

FASTEST_FIRST = ("hopper_bf16", "hopper_fp16", "cublas_tf32", "cublas", "pipelined", "warp_tiled", "cpu_blas")
ON_CUDA_CORES = ("pipelined", "warp_tiled")
# Operations of an average group, below which a call of the library for each takes longer than one launch of a kernel
# on CUDA cores.
SMALL_FLOPS = 1 << 28


def choose_grouped(problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    """Raises NoKernelError, ConfigError."""
    fit = {kernel.name: kernel for kernel in candidates(problem, accuracy, device)}
    kernel = _first(problem, fit)
    if kernel is None:
        raise NoKernelError(f"no kernel multiplies {problem.dtype} groups to {accuracy} accuracy on this device.")
    config = kernel.resolve_config(NO_CONFIG, problem, device)
    why = "is the first kernel here that takes group_sizes"
    if kernel.name in ON_CUDA_CORES and "cublas" in fit:
        why = "takes group_sizes in one launch, and these groups are small"
    return Choice(kernel, config, f"auto: {kernel.name} {why}.")


def _first(problem: Problem, fit: Mapping[str, Kernel]) -> Kernel | None:
    is_small = problem.flops < SMALL_FLOPS * len(problem.group_sizes)
    names = (*(ON_CUDA_CORES if is_small and problem.dtype not in ("bfloat16", "float16") else ()), *FASTEST_FIRST)
    return next((fit[name] for name in names if name in fit), None)
