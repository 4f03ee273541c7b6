"""Which kernels run in the emulation, in which configs, element types and transpositions: a sample that covers all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.selection.defaults import DefaultConfig, default_configs, main_dtype
from worker.cuda.sources import Program, kernel_program

Settings = tuple[tuple[str, int], ...]  # a config that can be looked up by

TRANSPOSES = ((False, False), (True, True), (False, True), (True, False))  # each two next to each other differ in both
EXTENT = 2048  # of a product that has many blocks in every config
SPREAD_CONFIGS = 4  # beside the defaults and the one of most blocks


@dataclass(frozen=True)
class Variant:
    """One compiled kernel."""

    name: str
    settings: Settings
    dtype: DTypeName
    transposes: tuple[bool, bool]

    def __str__(self) -> str:
        config = "-".join(f"{name}{value}" for name, value in self.settings)
        return f"{self.name}-{config}-{self.dtype}-{''.join('nt'[flag] for flag in self.transposes)}"

    @property
    def kernel(self) -> CudaKernel:
        kernel = BY_NAME[self.name]
        assert isinstance(kernel, CudaKernel)
        return kernel

    @property
    def config(self) -> TileConfig:
        return dict(self.settings)

    @cached_property
    def kind(self) -> Problem:
        return Problem(1, 1, 1, self.dtype, 1, *self.transposes)

    @property
    def program(self) -> Program:
        return kernel_program(self.kernel, self.config, self.kind)


def emulated_kernels() -> list[CudaKernel]:
    """All but those of one architecture's own instructions."""
    return [kernel for kernel in CATALOG if isinstance(kernel, CudaKernel) and not kernel.architecture_specific]


@cache
def variants() -> tuple[Variant, ...]:
    return tuple(variant for kernel in emulated_kernels() for variant in variants_of(kernel))


def variants_of(kernel: CudaKernel) -> Iterator[Variant]:
    """The main element type in all its defaults, the most blocks and configs from all over the space; every other in
    those of its defaults that no type before it has, or in one of them, and in one config more. Transpositions go in
    turn, so each type has each operand both ways."""
    others = [dtype for dtype in kernel.dtypes if dtype != main_dtype(kernel)]
    defaults = _distinct(defaults_of(kernel, main_dtype(kernel)))
    configs = [*defaults, *_distinct(_spread(kernel, main_dtype(kernel)))]
    yield from _in_turn(kernel, configs, main_dtype(kernel), first=0, at_least=len(TRANSPOSES))
    covered = set(defaults)
    for index, dtype in enumerate(others):
        own, spread = _distinct(defaults_of(kernel, dtype)), _distinct(_spread(kernel, dtype))
        chosen = [config for config in own if config not in covered] or [own[index % len(own)]]
        yield from _in_turn(kernel, [*chosen, spread[index % len(spread)]], dtype, first=2 * index, at_least=2)
        covered |= set(chosen)


def _in_turn(
    kernel: CudaKernel, configs: list[Settings], dtype: DTypeName, *, first: int, at_least: int
) -> Iterator[Variant]:
    distinct = list(dict.fromkeys(configs))
    for index in range(max(at_least, len(distinct))):
        transposes = TRANSPOSES[(first + index) % len(TRANSPOSES)]
        yield Variant(kernel.name, distinct[index % len(distinct)], dtype, transposes)


def _distinct(configs: list[TileConfig]) -> list[Settings]:
    return list(dict.fromkeys(tuple(_whole(config).items()) for config in configs))


def _whole(config: TileConfig) -> TileConfig:
    """With nothing left to a function apart."""
    return {**config, "edge": 0} if "edge" in config else config


def defaults_of(kernel: CudaKernel, dtype: DTypeName) -> list[TileConfig]:
    """What runs where no config is asked for, on any device that we know."""
    return [default.config for default in _defaults(kernel.name) if default.dtype == dtype]


@cache
def _defaults(name: str) -> list[DefaultConfig]:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    return list(default_configs(kernel))


@cache
def _configs(name: str) -> list[TileConfig]:
    return list(BY_NAME[name].configs())


def _spread(kernel: CudaKernel, dtype: DTypeName) -> list[TileConfig]:
    fitting = [config for config in _configs(kernel.name) if kernel.misfit(config, dtype) is None]
    problem = Problem(EXTENT, EXTENT, EXTENT, dtype)
    smallest = max(fitting, key=lambda config: kernel.plan(problem, config).main.grid[0])
    steps = (len(fitting) - 1) / (SPREAD_CONFIGS - 1)
    return [smallest, *(fitting[round(step * steps)] for step in range(SPREAD_CONFIGS))]
