"""Where a campaign's products are made and checked: by BLAS on the CPU, or by every kernel of a GPU."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jobs.errors import OperandDamaged
from jobs.fleet.workers import DeviceInfo
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.numerics import AccuracyName, DTypeName, Problem
from tests.campaign.hard import Pair
from worker.check.elements import narrow, widen
from worker.check.verify import check
from worker.cpu.blas import multiply
from worker.cpu.device import cpu_info
from worker.device.operands import HostOperand
from worker.device.runner import host_operands, verify_on_host

FLOAT32_CLASSES: tuple[AccuracyName, ...] = ("fp32", "tf32", "bf16", "fp16", "fp32_normwise")
# Every type, and every class: where no kernel of the CPU has one, operands are rounded to it first.
CPU_CLASSES: tuple[tuple[DTypeName, AccuracyName], ...] = (
    *(("float32", accuracy) for accuracy in FLOAT32_CLASSES),
    ("float16", "tf32"),
    ("bfloat16", "bf16"),
    ("float64", "fp64"),
    ("int8", "exact"),
    ("int32", "exact"),
    ("float8_e4m3", "fp32"),
    ("float8_e4m3", "fp8"),
    ("complex64", "fp32"),
    ("complex128", "fp64"),
)
TF32_LOST_BITS = 13


@dataclass(frozen=True, slots=True)
class Way:
    """A kernel, a config, an element type, the class that is computed in, and what is transposed."""

    kernel: str
    config: TileConfig
    dtype: DTypeName
    accuracy: AccuracyName
    transposes: tuple[bool, bool]

    def __str__(self) -> str:
        config = " ".join(f"{name}={value}" for name, value in self.config.items())
        return f"{self.kernel} {config} {self.dtype} {self.accuracy}"


class Made(ABC):
    """A product, and its check with other elements in the place of its own."""

    c: Array  # (batch, m, n), in stored form

    @abstractmethod
    def passes(self, c: Array, rng: np.random.Generator) -> bool:
        """Whether the check lets `c` pass as the product of the operands as they were sent."""

    def passes_late(self, c: Array, rng: np.random.Generator) -> bool:
        """Whether a product is delivered that became `c` after its check had passed."""
        return self.passes(self.c, rng) and digest_of(c) == self.digest

    @property
    def digest(self) -> int:
        """Taken before the check, of the product as it was computed."""
        return digest_of(self.c)


class Backend(ABC):
    """One device."""

    device: DeviceInfo
    ways: Sequence[Way]

    @abstractmethod
    def made(self, way: Way, problem: Problem, a: Array, b: Array) -> Made:
        """The product of these operands, given as they are stored."""

    @abstractmethod
    def damaged_passes(self, way: Way, problem: Problem, sent: Pair, damaged: Pair, rng: np.random.Generator) -> bool:
        """Whether the product of damaged operands passes where others were sent."""


@dataclass(slots=True)
class MadeOnCpu(Made):
    problem: Problem
    accuracy: AccuracyName
    a: Array
    b: Array
    c: Array

    def passes(self, c: Array, rng: np.random.Generator) -> bool:
        operands = host_operands(self.problem, self.a, self.b, as_made(self.problem, c))
        return bool(check(self.problem, self.accuracy, operands, rng).passed)


class CpuBackend(Backend):
    """`cpu_blas`, and emulations of the classes that only GPUs compute in. Set BLAS's threads outside."""

    def __init__(self) -> None:
        self.device = cpu_info(1)
        self.ways = tuple(
            Way(f"cpu_blas as {accuracy}", NO_CONFIG, dtype, accuracy, (transposed, other))
            for dtype, accuracy in CPU_CLASSES
            for transposed in (False, True)
            for other in (False, True)
        )

    def made(self, way: Way, problem: Problem, a: Array, b: Array) -> MadeOnCpu:
        product = multiply(problem, *(lowered(each, way) for each in (a, b)))
        return MadeOnCpu(problem, way.accuracy, a, b, product.reshape(problem.batch, problem.m, problem.n))

    def damaged_passes(self, way: Way, problem: Problem, sent: Pair, damaged: Pair, rng: np.random.Generator) -> bool:
        """As for a job: digests are those of what was sent."""
        try:
            verify_on_host(HostOperand(now, digest=digest_of(then)) for now, then in zip(damaged, sent, strict=True))
        except OperandDamaged:
            return False
        return self.made(way, problem, *sent).passes(self.made(way, problem, *damaged).c, rng)


def as_made(problem: Problem, c: Array) -> Array:
    """A product whose parts are elements, as the complex one that it is; and others as they are."""
    return np.ascontiguousarray(c).view(STORAGE_DTYPES[problem.product_dtype])


def lowered(operand: Array, way: Way) -> Array:
    """As the class has it before it multiplies."""
    if way.dtype != "float32" or way.accuracy not in ("tf32", "bf16", "fp16"):
        return operand
    if way.accuracy == "tf32":
        return _to_tf32(operand)
    dtype: DTypeName = "bfloat16" if way.accuracy == "bf16" else "float16"
    return widen(narrow(operand, dtype), dtype)


def _to_tf32(operand: Array) -> Array:
    """Rounded to 11 significant bits, to nearest, ties away from zero."""
    half = np.uint32(1 << (TF32_LOST_BITS - 1))
    kept = np.uint32(0xFFFFFFFF << TF32_LOST_BITS & 0xFFFFFFFF)
    rounded = ((operand.view(np.uint32) + half) & kept).view(np.float32)
    return np.where(np.isfinite(operand), rounded, operand)
