"""The CPU's kernels by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from jobs.formats.elements import Array
from kernels.model.numerics import Problem
from worker.cpu.blas import multiply, multiply_in_float64
from worker.cpu.exact.product import multiply_exactly

Multiply = Callable[[Problem, Array, Array, Array | None], Array]

CPU_KERNELS: Mapping[str, Multiply] = MappingProxyType(
    {"cpu_blas": multiply, "cpu_float64": multiply_in_float64, "cpu_exact": multiply_exactly}
)
