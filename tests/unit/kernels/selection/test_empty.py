"""Products without elements: the service refuses them before it asks for a kernel, and whoever asks gets a sentence."""

from __future__ import annotations

import pytest

from kernels.catalog import BY_NAME
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.candidates import NoKernelError
from kernels.selection.choose import choose, choose_again, contenders

H200 = DeviceTraits("gpu", (9, 0), 232448, 132, "NVIDIA H200")
NAMED = ("naive", "hopper_fp16", "hopper_fp32", "cublas")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize(("m", "n", "batch"), [(0, 4096, 1), (4096, 0, 1), (0, 0, 1), (0, 5, 4), (5, 7, 0)])
def test_no_kernel_is_taken(dtype: DTypeName, m: int, n: int, batch: int) -> None:
    problem, accuracy = Problem(m, n, 4096, dtype, batch), DTYPES[dtype].accuracy
    for name in ("auto", *(each for each in NAMED if dtype in BY_NAME[each].dtypes)):
        with pytest.raises(NoKernelError, match="has no elements"):
            choose(name, {}, problem, accuracy, H200)
    for ask in (choose_again, contenders):
        with pytest.raises(NoKernelError, match="has no elements"):
            ask(problem, accuracy, H200)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_product_of_no_terms_has_elements(dtype: DTypeName) -> None:
    assert choose("auto", {}, Problem(64, 64, 0, dtype), DTYPES[dtype].accuracy, H200).kernel
