"""Bounds the number of cases of a spec without expanding it, so that a hostile spec costs neither time nor memory."""

from __future__ import annotations

from math import prod

from jobs.benchmarks.spec import (
    BenchmarkSpec,
    ConfigGrid,
    Configs,
    KernelAxis,
    KernelItem,
    Rectangles,
    ShapeItem,
    SizeRange,
)
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kernel import DeviceClass, Kernel

LIBRARIES: dict[DeviceClass, int] = {"gpu": 4, "cpu": 1}  # most baselines of one problem: one for each accuracy class
COUNTLESS = 10**15  # counted no further: a grid may have more combinations than there are atoms


def max_cases(spec: BenchmarkSpec, device_class: DeviceClass) -> int:
    """An upper bound on the number of cases that `expand` gives on such a device, repetitions included, capped at
    COUNTLESS. The time it takes depends only on the length of the spec.
    """
    if spec.kind == "ceilings":
        return 0
    configs = LIBRARIES[device_class] + (
        sum(_count(kernel, spec.configs) for kernel in CATALOG if kernel.device_class == device_class)
        if isinstance(spec.kernels, str)
        else sum(_of_item(item, spec.configs) for item in spec.kernels)
    )
    return min(sum(map(_shapes, spec.shapes)) * len(spec.dtypes) * configs, COUNTLESS)


def _of_item(item: KernelItem, of_all: Configs) -> int:
    if not isinstance(item, KernelAxis):
        return _count(BY_NAME[item], of_all)
    return _count(BY_NAME[item.kernel], of_all if item.configs is None else item.configs)


def _count(kernel: Kernel, configs: Configs) -> int:
    match configs:
        case "default":
            return 1
        case "all":
            return prod(len(parameter.values) for parameter in kernel.parameters)
        case ConfigGrid(grid=grid):
            return prod(map(len, grid.values()))
        case _:
            return len(configs)


def _shapes(item: ShapeItem) -> int:
    match item:
        case SizeRange(count=int(count)):
            return count
        case SizeRange(start=start, stop=stop, step=step):
            return (stop - start) // (step or 1) + 1
        case Rectangles(m=m, n=n, k=k):
            return len(m) * len(n) * len(k)
        case _:
            return 1
