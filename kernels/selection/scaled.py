"""What `auto` takes for operands with block scales: the first suitable kernel, because no table has them."""

from __future__ import annotations

from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import AccuracyName, Problem
from kernels.selection.candidates import Choice, NoKernelError, candidates

FASTEST_FIRST = ("hopper_fp8", "cublas", "cpu_blas")


def choose_scaled(problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    """Raises NoKernelError, ConfigError."""
    fit = {kernel.name: kernel for kernel in candidates(problem, accuracy, device)}
    kernel = next((fit[name] for name in FASTEST_FIRST if name in fit), None)
    if kernel is None:
        raise NoKernelError(f"no kernel multiplies operands with block scales to {accuracy} accuracy on this device.")
    config = kernel.resolve_config(NO_CONFIG, problem, device)
    return Choice(kernel, config, f"auto: {kernel.name} is the first kernel here that takes block scales.")
