"""Catalogue entries of kernels, and how a launch is derived from them. Nothing here touches a device.

Describe (the entry) → decide (`resolve_config`, `launch`) → launch (`worker/cuda/launch.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from kernels.model.buckets import BUCKET_NAMES, BucketName, bucket_of
from kernels.model.entry.boxes import Boxes
from kernels.model.entry.config import NO_CONFIG, ConfigError, Constraint, Parameter, TileConfig
from kernels.model.entry.fallback import Fallback
from kernels.model.entry.left_out import LeftOut, left_out_because
from kernels.model.entry.sentences import describe_config, too_new, too_old
from kernels.model.fused import FusedEpilogue
from kernels.model.groups import Grouped, table_of
from kernels.model.launch_plan import Launch, LaunchPlan, Pass, Workspace
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem, meets
from kernels.model.sources import source_files
from kernels.model.triangle import MULTIPROCESSORS, TriangleOf, mirror_of, whole

DeviceClass = Literal["cpu", "gpu"]
# What is known of a kernel's arithmetic, from which `kernels/model/bounds.py` proves a bound.
Arithmetic = Literal["conventional", "tensor", "strassen", "digits", "wide", "rounded_once", "unproven"]
MAX_REGISTERS = 255  # of one thread, 32 bits each
SPARE_REGISTERS = 31  # minimum for addresses, loop counters and operand fragments


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """A default config, for the products and devices on which it was found best."""

    config: TileConfig
    buckets: tuple[BucketName, ...] = BUCKET_NAMES
    dtypes: tuple[DTypeName, ...] | None = None  # None: all
    symmetric: bool = False  # only for symmetric products
    min_compute_capability: tuple[int, int] = (0, 0)

    def suits(self, problem: Problem, bucket: BucketName, device: DeviceTraits) -> bool:
        """`bucket` is the problem's."""
        return bucket in self.buckets and self.symmetric <= problem.symmetric and self.runs(problem.dtype, device)

    def runs(self, dtype: DTypeName, device: DeviceTraits) -> bool:
        """Whatever the product's size."""
        return (self.dtypes is None or dtype in self.dtypes) and (
            device.compute_capability >= self.min_compute_capability
        )


@dataclass(frozen=True, slots=True)
class DeviceTraits:
    """The traits of a device that decide whether a kernel can run on it."""

    device_class: DeviceClass
    compute_capability: tuple[int, int] = (0, 0)  # (0, 0) on a CPU
    shared_bytes_per_block: int = 0  # 0: unknown, and so no limit
    multiprocessors: int = 0
    name: str = ""  # of the model; empty if unknown
    gpus: int = 1  # number of equal GPUs that compute a product together
    libraries: tuple[str, ...] = ()  # optional libraries that are installed
    left_out: tuple[LeftOut, ...] = ()  # kernels that failed to run when the worker started


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One way to multiply. The name is the API value, the metric label and, for CUDA, the file stem and symbol."""

    name: str
    summary: str  # one line
    idea: str  # a short paragraph: what it does and why that is faster or slower than the rung before
    origin: str  # where it comes from: a report, a library
    device_class: DeviceClass
    accuracy: Mapping[DTypeName, AccuracyName]  # element types taken, and the error class each is computed in
    parameters: tuple[Parameter, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    defaults: tuple[Default, ...] = ()  # the first that suits counts; then the parameters' own
    min_compute_capability: tuple[int, int] = (0, 0)
    # For element types that need a higher one.
    dtype_compute_capability: Mapping[DTypeName, tuple[int, int]] = field(default_factory=dict)
    # True: only that compute capability has its instructions, not even a newer one does.
    architecture_specific: bool = False
    # Emulated kernels: the type whose units do the work, and how many of its products one product takes.
    emulated_with: tuple[DTypeName, float] | None = None
    arithmetic: Mapping[DTypeName, Arithmetic] = field(default_factory=dict)  # of floats, where it is not conventional
    # If operands may have block scales: the reason why a config cannot take those of a problem; None: it can.
    scales: Callable[[Problem, TileConfig], str | None] | None = field(default=None, repr=False)
    groups: Grouped | None = field(default=None, repr=False)  # where rows of A may have groups
    needs_scales: bool = False  # True: takes only operands with block scales

    @property
    def dtypes(self) -> tuple[DTypeName, ...]:
        return tuple(self.accuracy)

    def is_reproducible(self, dtype: DTypeName) -> bool:
        """Whether its products have the same bits on every device, in every config and run. True for integers, which
        are added modulo 2³² in any order, and for exact sums that are rounded once.
        """
        return dtype in self.accuracy and (DTYPES[dtype].is_integer or self.arithmetic.get(dtype) == "rounded_once")

    @property
    def is_everyday(self) -> bool:
        """Whether named sets such as `all` include it. Special-purpose kernels run only if requested by name, by a
        demand, or by their operands.
        """
        return not self.needs_scales and not {"rounded_once", "wide"}.intersection(self.arithmetic.values())

    def takes(self, dtype: DTypeName, accuracy: AccuracyName | None = None) -> bool:
        """Whether it multiplies `dtype` operands in at least the requested class (by default the dtype's own)."""
        return dtype in self.accuracy and meets(self.accuracy[dtype], accuracy or DTYPES[dtype].accuracy)

    def unsupported_because(self, device: DeviceTraits, dtype: DTypeName | None = None) -> str | None:
        """A sentence saying why this device cannot run it, in general or for `dtype` operands; None if it can."""
        if device.device_class != self.device_class:
            return f"{self.name} runs on a {self.device_class.upper()}, not on a {device.device_class.upper()}."
        if device.compute_capability < self.min_compute_capability:
            return too_old(self.name, self.min_compute_capability, device.compute_capability)
        if self.architecture_specific and device.compute_capability != self.min_compute_capability:
            return too_new(self.name, self.min_compute_capability, device.compute_capability)
        needed = self.dtype_compute_capability
        if dtype is not None and device.compute_capability < needed.get(dtype, (0, 0)):
            return too_old(f"{self.name} for {dtype}", needed[dtype], device.compute_capability)
        able = (each for each in self.dtypes if device.compute_capability >= needed.get(each, (0, 0)))
        return left_out_because(device.left_out, self.name, able if dtype is None else (dtype,))

    def resolve_config(
        self, asked: TileConfig = NO_CONFIG, problem: Problem | None = None, device: DeviceTraits | None = None
    ) -> TileConfig:
        """The full config for `asked`: what it leaves out comes from the default for this product on this device, or,
        where that does not go with what was asked or does not fit, from the next that does.

        Raises ConfigError with the sentence of what is wrong.
        """
        self._check_values(asked)
        first_error: str | None = None
        for start in self._starts(problem, device):
            config = {p.name: asked.get(p.name, start.get(p.name, p.default)) for p in self.parameters}
            error = self._broken_rule(config)
            if error is None and problem is not None:
                error = self.misfit(config, problem.dtype, device) or self._scales_misfit(problem, config)
            if error is None:
                return config
            first_error = first_error or error
        assert first_error is not None
        raise ConfigError(first_error)

    def misfit(self, config: TileConfig, dtype: DTypeName, device: DeviceTraits | None = None) -> str | None:
        """A sentence with numbers saying why a launch of this config cannot fit; None if it can."""
        return None

    def takes_scales_of(self, problem: Problem) -> bool:
        return self.scales is not None if problem.scale_columns else not self.needs_scales

    def takes_groups_of(self, problem: Problem) -> bool:
        return not problem.group_sizes or (self.groups is not None and problem.dtype in self.groups.dtypes)

    def _scales_misfit(self, problem: Problem, config: TileConfig) -> str | None:
        return self.scales(problem, config) if problem.scale_columns and self.scales is not None else None

    def _broken_rule(self, config: TileConfig) -> str | None:
        """The sentence of the first constraint that does not hold."""
        return next((rule.sentence.format(**config) for rule in self.constraints if not rule.holds(config)), None)

    def _check_values(self, asked: TileConfig) -> None:
        known = {p.name: p for p in self.parameters}
        for name, value in asked.items():
            if name not in known:
                offer = ", ".join(known) or "none"
                raise ConfigError(f"{self.name} has no parameter {name[:40]!r}; it has: {offer}.")
            if value not in known[name].values:
                allowed = ", ".join(map(str, known[name].values))
                raise ConfigError(f"{name}={value} is not allowed for {self.name}; allowed values: {allowed}.")

    def _starts(self, problem: Problem | None, device: DeviceTraits | None) -> Iterator[TileConfig]:
        """Default configs in order of preference: the suitable ones, then the parameters' defaults, then all others."""
        if problem is not None and device is not None:
            of_groups = self.groups.configs if problem.group_sizes and self.groups is not None else ()
            bucket, of_any = bucket_of(problem), tuple(Default(config=config) for config in of_groups)
            suits = [each for each in of_any or self.defaults if each.suits(problem, bucket, device)]
            yield from (default.config for default in self._ranked(suits, problem, device))
        yield NO_CONFIG
        yield from (default.config for default in self.defaults)

    def _ranked(self, suits: list[Default], problem: Problem, device: DeviceTraits) -> list[Default]:
        """The best first."""
        return suits

    def configs(self) -> Iterator[TileConfig]:
        """Every config it takes."""
        names = [p.name for p in self.parameters]
        for values in itertools.product(*(p.values for p in self.parameters)):
            config = dict(zip(names, values, strict=True))
            if all(rule.holds(config) for rule in self.constraints):
                yield config


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaKernel(Kernel):
    """One of this project's kernels: `cuda/<name>.cu` holds `extern "C" __global__ void <name>(…)`."""

    device_class: DeviceClass = "gpu"
    arrange: Callable[[Problem, TileConfig], Launch] = field(repr=False)
    # Bytes of shared memory of one block, and accumulators of one thread, by config and element type.
    shared_bytes: Callable[[TileConfig, DTypeName], int] = field(default=lambda _config, _dtype: 0, repr=False)
    accumulators: Callable[[TileConfig], int] = field(default=lambda _config: 1, repr=False)
    workspace: Callable[[Problem, TileConfig], Workspace | None] | None = field(default=None, repr=False)
    passes: Callable[[Problem, TileConfig], tuple[Pass, ...]] | None = field(default=None, repr=False)
    fallback: Fallback[CudaKernel] | None = field(default=None, repr=False)
    # If set, the kernel reads and writes matrices by bulk tensor copies (TMA): it takes tensor maps, not addresses.
    boxes: Callable[[Problem, TileConfig], Boxes] | None = field(default=None, repr=False)
    # Programmatic dependent launch: its functions wait by themselves for earlier work on the stream (a transposition or
    # each other), so they may start early.
    supports_dependent_launch: bool = False
    # The part of a product left for the kernel, if a separate function computes the edge.
    inner: Callable[[Problem, TileConfig], Problem] = field(default=lambda problem, _config: problem, repr=False)
    fused_outputs: Mapping[DTypeName, tuple[DTypeName, ...]] = field(default_factory=dict)  # by operands' type
    fused_shared_bytes: int = 0  # of shared memory that a block takes with an epilogue, whatever its config
    # Where a config does not store all of these: whether it stores one.
    stores: Callable[[Problem, TileConfig, DTypeName], bool] | None = field(default=None, repr=False)
    # Approximate clocks of a config on a number of multiprocessors; the cheapest suitable default is used.
    clocks: Callable[[Problem, TileConfig, int], float] | None = field(default=None, repr=False)
    triangle: TriangleOf | None = field(default=None, repr=False)  # of a symmetric product, computed alone
    takes_pairs: bool = False  # compiled with COMPLEX, its elements are pairs of numbers

    @property
    def source_path(self) -> Path:
        return source_files()[f"{self.name}.cu"]

    def defines(self, config: TileConfig) -> tuple[str, ...]:
        """Compiler options that give the source its tile sizes: block_m=64 becomes -DBLOCK_M=64."""
        compiled = sorted(p.name for p in self.parameters if p.compiled)
        return tuple(f"-D{name.upper()}={config[name]}" for name in compiled)

    def misfit(self, config: TileConfig, dtype: DTypeName, device: DeviceTraits | None = None) -> str | None:
        registers = self.accumulators(config) * -(-DTYPES[dtype].accumulator_bytes // 4)
        if registers > MAX_REGISTERS - SPARE_REGISTERS:
            return (
                f"{self.name} with {describe_config(config)} keeps {registers} registers of {dtype} sums in a thread, "
                f"which has {MAX_REGISTERS - SPARE_REGISTERS} for them; take smaller thread tiles."
            )
        need = self.shared_bytes(config, dtype)
        if device is not None and 0 < device.shared_bytes_per_block < need:
            return (
                f"{self.name} with {describe_config(config)} needs {need} bytes of shared memory a block for {dtype}; "
                f"the device has {device.shared_bytes_per_block}; take smaller tiles."
            )
        return None

    def fuses(self, problem: Problem, config: TileConfig, fused: FusedEpilogue) -> bool:
        """Whether it does that to all its sums. What a function of its own computes at the edge has no epilogue."""
        if fused.output not in self.fused_outputs.get(problem.dtype, ()) or self.inner(problem, config) != problem:
            return False
        return self.stores is None or self.stores(problem, config, fused.output)

    def plan(self, problem: Problem, config: TileConfig, fused: FusedEpilogue | None = None) -> LaunchPlan:
        """The complete launch plan for a problem. `config` is a full one, from `resolve_config`."""
        mirrored = mirror_of(problem, config, self.triangle, self.clocks)
        problem = problem if mirrored else whole(problem)
        inner = self.inner(problem, config)
        boxes = self.boxes(problem, config) if self.boxes else None
        if boxes is not None and fused is not None:
            boxes = boxes.delivering(problem.product_dtype, fused.output)
        main = self.arrange(inner, config)
        if fused is not None and self.fused_shared_bytes:
            main = replace(main, shared_bytes=self.fused_shared_bytes)
        return LaunchPlan(
            problem=problem,
            inner=inner,
            launched=_with_transposes(inner, boxes.wanted if boxes else None),
            main=main,
            passes=self.passes(problem, config) if self.passes else (),
            workspace=self.workspace(inner, config) if self.workspace else None,
            boxes=boxes,
            mirrored=mirrored,
            groups=table_of(self.groups, problem, config),
        )

    def _ranked(self, suits: list[Default], problem: Problem, device: DeviceTraits) -> list[Default]:
        clocks, count = self.clocks, device.multiprocessors or MULTIPROCESSORS
        problem = problem if self.triangle is not None else whole(problem)
        return sorted(suits, key=lambda default: clocks(problem, default.config, count)) if clocks else suits


def _with_transposes(problem: Problem, wanted: tuple[bool, bool] | None) -> Problem:
    """The problem with the transpositions that a kernel's operands need; None keeps the problem's own."""
    return problem if wanted is None else replace(problem, transpose_a=wanted[0], transpose_b=wanted[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryKernel(Kernel):
    """A library's product, used as the baseline: it has no source here and no tile."""

    library: str  # as in "cuBLAS"
    triangles: tuple[DTypeName, ...] = ()  # types of symmetric products of which it computes one triangle
    # The first use of a problem tries several algorithms, including the library's own choice, and keeps the fastest.
    is_tuned: bool = False
