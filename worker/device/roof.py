"""A device's theoretical peak from its attributes; a measurement above it is an error."""

from __future__ import annotations

from jobs.fleet.workers import DeviceInfo
from kernels.model.kernel import Kernel
from kernels.model.numerics import AccuracyName, DTypeName

TENSOR_FLOAT32 = (8, 0)  # the first compute capability whose tensor cores take TF32
TF32_OVER_FLOAT16 = 0.5


def roof_of(kernel: Kernel, device: DeviceInfo, accuracy: AccuracyName | None, dtype: DTypeName) -> float | None:
    """The result of `theoretical_gflops`, adjusted for emulated kernels, which compute one product from several of
    another type.
    """
    if kernel.emulated_with is None:
        return theoretical_gflops(device, accuracy, dtype)
    units, count = kernel.emulated_with
    peak = device.theoretical.gflops.get(units)
    return peak / count if peak else None


def theoretical_gflops(device: DeviceInfo, accuracy: AccuracyName | None, dtype: DTypeName) -> float | None:
    """Most operations a second, in 10⁹, of products of `dtype` operands in the class `accuracy`; None where unknown.

    float32 operands that are lowered first go to the tensor cores: at float16's rate where they are lowered to 16
    bits, at half of it for TF32 (NVIDIA's white papers on A100, GA102, Ada and H100: dense TF32 is half of dense
    FP16 with float32 sums). A library may take TF32 where it is allowed 16 bits, so the roof is the higher one.
    """
    known = device.theoretical.gflops
    if dtype != "float32" or accuracy in (None, "fp32"):
        return known.get(dtype)
    half = known.get("float16")
    if accuracy != "tf32":
        return half
    if half is None or device.compute_capability is None or device.compute_capability < TENSOR_FLOAT32:
        return None
    return half * TF32_OVER_FLOAT16
