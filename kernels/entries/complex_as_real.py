"""Complex products made of real ones."""

from __future__ import annotations

from kernels.entries.fp32_emulated import FP32_EMULATED
from kernels.entries.fp64_emulated import FP64_EMULATED
from kernels.model.entry.config import Parameter
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import COMPLEX_ACCURACY

EMULATED = Parameter(
    name="emulated",
    values=(0, 1),
    default=0,
    summary="1: the real product goes to the kernel that emulates its type on int8 tensor cores; 0: to `auto`'s",
    compiled=False,
)


def _of_ours(kernels: tuple[Kernel, ...]) -> CudaKernel:
    (kernel,) = kernels
    assert isinstance(kernel, CudaKernel)
    return kernel


COMPLEX: tuple[ComposedKernel, ...] = (
    ComposedKernel(
        name="complex_as_real",
        summary="A complex product as one real product of twice the columns and twice the depth.",
        idea="Rows of A and of C are read as they lie, real and imaginary parts side by side. Each element of B "
        "becomes the 2×2 block of its multiplication, in memory of its own. What is left is a real product with as "
        "many operations, which goes to the kernel that `auto` takes for it: float32 from integers on tensor cores, "
        "float64 on tensor cores. Four separate products of the parts would be smaller, and their sums another pass. "
        "Each part of each element keeps the bound of a real sum of 2k terms. Conjugates are signs of the blocks. "
        "fp64_emulated takes complex128 operands as they are: in remainders, which are exact, three real products in "
        "place of four give the same bits, and B is arranged only where it falls back.",
        origin="The 1m method of F. G. Van Zee, SIAM J. Sci. Comput. 42(5), 2020, as one product.",
        accuracy=COMPLEX_ACCURACY,
        parameters=(EMULATED,),
        emulators={"complex64": _of_ours(FP32_EMULATED), "complex128": _of_ours(FP64_EMULATED)},
    ),
)
