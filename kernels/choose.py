"""`auto` → a kernel, its config, and why, from measured tables; and the check of a choice the caller made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kernels.catalog import BY_NAME, CATALOG
from kernels.kernel import NO_CONFIG, DeviceTraits, Kernel, TileConfig
from kernels.numerics import AccuracyName, Problem


class NoKernelError(ValueError):
    """No kernel fits; the message is a sentence for the caller."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What will run, and one sentence that says why."""

    kernel: Kernel
    config: TileConfig
    why: str


# Fastest first where nothing was measured. A library's product beats ours until a measured table says otherwise; one of
# reduced precision is fit only where the caller asked for its class, and faster there.
_PREFERENCE: tuple[str, ...] = (
    "cublas_fp16",
    "cublas_bf16",
    "cublas_tf32",
    "cublas",
    "pipelined",
    "warp_tiled",
    "vectorized",
    "register_tiled",
    "register_tiled_rows",
    "shared_tiled_privatized",
    "shared_tiled_prefetch",
    "shared_tiled",
    "coarsened",
    "unrolled",
    "naive",
    "naive_uncoalesced",
    "cpu_blas",
)


def candidates(
    problem: Problem, accuracy: AccuracyName, device: DeviceTraits, served: Collection[str] | None = None
) -> list[Kernel]:
    """Kernels that run this product on this device to this accuracy, in ladder order."""
    return [
        kernel
        for kernel in CATALOG
        if kernel.takes(problem.dtype, accuracy)
        and kernel.unsupported_because(device, problem.dtype) is None
        and (served is None or kernel.name in served)
    ]


def choose(name: str, asked: TileConfig, problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    """Resolves a caller's kernel and config on a device. Raises NoKernelError, ConfigError."""
    if name != "auto":
        return _named(BY_NAME[name], asked, problem, accuracy, device)
    fit = {kernel.name: kernel for kernel in candidates(problem, accuracy, device)}
    for preferred in _PREFERENCE:
        if preferred in fit:
            kernel = fit[preferred]
            others = (
                f"the first of {len(fit)} kernels that take {problem.dtype} to {accuracy} here, in order of preference"
            )
            config = kernel.resolve_config(NO_CONFIG, problem, device)
            return Choice(kernel, config, f"auto: {kernel.name} is {others}.")
    raise NoKernelError(f"no kernel multiplies {problem.dtype} operands to {accuracy} accuracy on this device.")


def _named(kernel: Kernel, asked: TileConfig, problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    if (reason := kernel.unsupported_because(device, problem.dtype)) is not None:
        raise NoKernelError(reason)
    if not kernel.takes(problem.dtype, accuracy):
        raise NoKernelError(f"{kernel.name} does not multiply {problem.dtype} operands to {accuracy} accuracy.")
    return Choice(kernel, kernel.resolve_config(asked, problem, device), f"{kernel.name} was asked for.")
