"""What to try after a run: the one step that is likely to teach the most."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.curves import is_library, speed
from analysis.library import TUNED, LibraryLine
from analysis.measurement import Device, Measurement
from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel, DeviceTraits

ABREAST = 0.95  # of the library's speed: above it other tile configs gain little
AGAIN = "Measure again while nothing else uses the device."
STEPS = {
    "contended": AGAIN,
    "throttled": "Let the device cool, or lower its clock, and measure again.",
    "not converged": "Measure again with more samples: raise timing.max_samples and timing.timeout_s.",
}


def next_step(group: Sequence[Measurement], best: Measurement, line: LibraryLine | None) -> str:
    """`group` has all cases of one element type and accuracy. `line` is the library's best result at the shape of
    `best`."""
    library = line.same if line else None
    if not best.condition.is_clean:
        return STEPS.get(best.condition.kind, AGAIN)
    if is_library(best.kernel):
        return _beside_library(best)
    if library is None:
        return "Measure the library beside it: set baseline to auto."
    if not library.condition.is_clean:
        return f"{STEPS.get(library.condition.kind, AGAIN)} The library's line is what is in doubt."
    if line is not None and line.may_be_faster:
        return f"Measure {TUNED[library.kernel or '']} beside it: cuBLAS tuned, and padded where that is faster."
    return _faster(group, best, library)


def _beside_library(best: Measurement) -> str:
    if best.device.device_class == "cpu":
        return "Kernels to compare it with need a GPU; the published runs on an H200 have them all."
    return "Measure this project's kernels beside it: set kernels to ladder."


def _faster(group: Sequence[Measurement], best: Measurement, library: Measurement) -> str:
    if _is_ahead(best, library):
        return f"{best.label} is ahead here. See whether it stays so at sizes that are no multiple of its tile."
    if speed(best) >= ABREAST * speed(library):
        return "It is close to the library. Look at the sizes where it falls behind, in the chart below."
    if names := _untried(group, best):
        return f"Measure {' and '.join(names)} as well, which this run leaves out."
    if len({tuple(each.config.items()) for each in group if each.kernel == best.kernel}) == 1:
        return f"Search for a better tile config of {best.label}: preset tune, with kernels set to it."
    return f"See on the roofline what limits {best.label}, and the difference to the next rung on its page."


def _is_ahead(best: Measurement, library: Measurement) -> bool:
    """Whether it is faster, whatever the samples leave open, where they are known."""
    mine, its = best.interval_ms, library.interval_ms
    if mine is None or its is None:
        return speed(best) > speed(library)
    return mine.hi < its.lo


def _untried(group: Sequence[Measurement], best: Measurement) -> list[str]:
    """One or two kernels that come after the best in the catalogue and compute the same product on the same device."""
    names = [kernel.name for kernel in CATALOG]
    measured = {each.kernel for each in group}
    device = _traits(best.device)
    later = CATALOG[names.index(best.kernel) + 1 :] if best.kernel in names else ()
    fit = [
        kernel.name
        for kernel in later
        if isinstance(kernel, CudaKernel)
        and kernel.accuracy.get(best.dtype) == best.accuracy
        and kernel.name not in measured
        and kernel.unsupported_because(device, best.dtype) is None
    ]
    return fit[-2:]


def _traits(device: Device) -> DeviceTraits:
    return DeviceTraits(device.device_class, device.compute_capability or (0, 0), name=device.name or "")
