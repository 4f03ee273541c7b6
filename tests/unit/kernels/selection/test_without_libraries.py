"""What `auto` takes where no library is left: as after a failed attempt, or on a worker that serves without them."""

from __future__ import annotations

import pytest

from kernels.catalog import CATALOG
from kernels.model.architectures import ARCHITECTURES
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel, DeviceTraits, Kernel
from kernels.model.numerics import Problem
from kernels.selection.choose import choose_from, preferred_of

DEVICES = {name: architecture.traits for name, architecture in ARCHITECTURES.items()}
PREFERRED = [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel) and preferred_of([kernel]) is not None]


def nothing_is_compiled(_kernel: Kernel, _config: TileConfig) -> bool:
    return False


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("kernel", PREFERRED, ids=[kernel.name for kernel in PREFERRED])
def test_a_kernel_without_measurements_gets_a_config_of_its_type(kernel: CudaKernel, device: DeviceTraits) -> None:
    """Its configs for float32 may be too large for float64."""
    dtypes = [dtype for dtype in kernel.dtypes if kernel.unsupported_because(device, dtype) is None]
    for dtype in dtypes:
        problem = Problem(93, 114, 99, dtype)
        choice = choose_from([], problem, kernel.accuracy[dtype], device, nothing_is_compiled, [kernel])
        assert (choice.kernel, choice.config) == (kernel, kernel.resolve_config(NO_CONFIG, problem, device))
