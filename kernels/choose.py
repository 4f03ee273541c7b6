"""`auto` → a kernel, its config, and why, from measured tables; and the check of a choice the caller made."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kernels.catalog import BY_NAME, CATALOG
from kernels.kernel import NO_CONFIG, ConfigError, DeviceTraits, Kernel, LibraryKernel, TileConfig
from kernels.numerics import ACCURACY_RANGE, ACCURACY_UNIT_ROUNDOFF, AccuracyName, DTypeName, Problem
from kernels.tuned import Nearby, Row, nearby

AS_FAST = 0.98  # of the fastest: runs of one kernel differ by so much


class NoKernelError(ValueError):
    """No kernel fits; the message is a sentence for the caller."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What will run, and one sentence that says why."""

    kernel: Kernel
    config: TileConfig
    why: str


# Fastest first where nothing near was measured. A library's product beats ours until a table says otherwise; one of
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
    """Resolves a caller's kernel and config on a device. Raises NoKernelError, ConfigError.

    `auto` takes the fastest of what was measured near that shape on that model of device. Of kernels within 2 % of it a
    library's goes first, which adapts to shapes between those measured, and among equals the more exact. Where nothing
    near was measured, or not the kernel that is preferred without figures, that one is taken.
    """
    if name != "auto":
        return _named(BY_NAME[name], asked, problem, accuracy, device)
    fit = {kernel.name: kernel for kernel in candidates(problem, accuracy, device)}
    preferred = next((fit[name] for name in _PREFERENCE if name in fit), None)
    if preferred is None:
        raise NoKernelError(f"no kernel multiplies {problem.dtype} operands to {accuracy} accuracy on this device.")
    near = nearby(problem, accuracy, device)
    if near is not None and (choice := _measured(near, fit, preferred, problem, device)) is not None:
        return choice
    others = f"the first of {len(fit)} kernels that take {problem.dtype} to {accuracy} here, in order of preference"
    config = preferred.resolve_config(NO_CONFIG, problem, device)
    return Choice(preferred, config, f"auto: {preferred.name} is {others}.")


@dataclass(frozen=True, slots=True)
class _Contender:
    """A kernel with the config that was best for it, both fit for the problem at hand."""

    kernel: Kernel
    config: TileConfig
    row: Row
    baseline: str | None

    def precedence(self, dtype: DTypeName) -> tuple[bool, float, bool, float]:
        """Least first, among the equally fast."""
        accuracy = self.kernel.accuracy[dtype]
        ours = not isinstance(self.kernel, LibraryKernel)
        return ours, ACCURACY_UNIT_ROUNDOFF[accuracy], accuracy in ACCURACY_RANGE, -self.row.gflops


def _measured(
    near: Nearby, fit: Mapping[str, Kernel], preferred: Kernel, problem: Problem, device: DeviceTraits
) -> Choice | None:
    contenders = list(_contenders(near, fit, problem, device))
    if not any(contender.kernel is preferred for contender in contenders):
        return None
    fastest = max(contenders, key=lambda contender: contender.row.gflops)
    as_fast = [one for one in contenders if one.row.gflops >= AS_FAST * fastest.row.gflops]
    chosen = min(as_fast, key=lambda contender: contender.precedence(problem.dtype))
    return Choice(chosen.kernel, chosen.config, _why(chosen, fastest, len(contenders), near, device))


def _contenders(
    near: Nearby, fit: Mapping[str, Kernel], problem: Problem, device: DeviceTraits
) -> Iterator[_Contender]:
    for entry in near.entries:
        for row in entry.ranking:
            if (kernel := fit.get(row.kernel)) is not None:
                try:
                    config = kernel.resolve_config(row.config, problem, device)
                except ConfigError:  # another device, or an entry that has changed since
                    continue
                yield _Contender(kernel, config, row, entry.baseline)


def _why(chosen: _Contender, fastest: _Contender, count: int, near: Nearby, device: DeviceTraits) -> str:
    entry, table = near.entries[0], near.table
    batch = f" in batches of {entry.batch}" if entry.batch > 1 else ""
    where = f"on {_a(table.device)} at {entry.m}×{entry.n}×{entry.k}{batch}"
    kernels = f"{count} kernels measured {where}"
    speed = f"{chosen.row.gflops:.0f} GFLOPS"
    if chosen.row.fraction_of_baseline is not None and chosen.baseline != chosen.kernel.name:
        speed += f", {chosen.row.fraction_of_baseline:.2f} times {chosen.baseline}"
    if count == 1:
        said = f"of the kernels measured {where} {chosen.kernel.name} alone fits here ({speed})."
    elif chosen is fastest:
        said = f"{chosen.kernel.name} was the fastest of {kernels} ({speed})."
    else:
        said = (
            f"{chosen.kernel.name} was within {100 * (1 - AS_FAST):.0f} % of {fastest.kernel.name}, the fastest of "
            f"{kernels} ({speed}); so near, libraries go first, and the more exact."
        )
    elsewhere = f" This is {_a(device.name)}, of the same compute capability." if table.device != device.name else ""
    return f"auto: {said}{elsewhere}"


def _a(device: str) -> str:
    """With the article that goes with how the name is spoken."""
    return f"an {device}" if device.startswith(("A", "E", "I", "NV", "O")) else f"a {device}"


def _named(kernel: Kernel, asked: TileConfig, problem: Problem, accuracy: AccuracyName, device: DeviceTraits) -> Choice:
    if (reason := kernel.unsupported_because(device, problem.dtype)) is not None:
        raise NoKernelError(reason)
    if not kernel.takes(problem.dtype, accuracy):
        raise NoKernelError(f"{kernel.name} does not multiply {problem.dtype} operands to {accuracy} accuracy.")
    return Choice(kernel, kernel.resolve_config(asked, problem, device), f"{kernel.name} was asked for.")
