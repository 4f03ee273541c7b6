"""Symmetric products on the CPU under sanitizers: kernels compute one triangle, the mirror makes the other of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.catalog import BY_NAME
from kernels.model import triangle
from kernels.model.entry.config import TileConfig
from kernels.model.launch_plan import Mirror
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.emulation import boxed
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Emulator
from tests.emulation.variants import Variant
from tests.support.kernels.products import matrix
from worker.check.elements import as_float64
from worker.cuda.sources import kernel_program, mirror_program

# Rows of X, its columns, and multiprocessors: less than a tile, one, several, odd ends of n and of k, no k, a few rows
# that are a tile of their own.
SIZES = ((1, 1, 2), (37, 65, 2), (128, 31, 2), (129, 200, 3), (300, 97, 2), (385, 32, 5), (200, 0, 2))
FEW = SIZES[:1] + SIZES[3:5]


@dataclass(frozen=True)
class Symmetric(Variant):
    """A kernel whose function finds its operands in one matrix."""

    sizes: Sequence[tuple[int, int, int]] = SIZES

    def __str__(self) -> str:
        return f"{self.name}-{''.join('nt'[flag] for flag in self.transposes)}"

    def problem(self, n: int, k: int) -> Problem:
        return replace(self.kind, m=n, n=n, k=k, symmetric=True)


def symmetric(
    name: str,
    dtype: DTypeName,
    asked: TileConfig,
    transposes: tuple[bool, bool],
    sizes: Sequence[tuple[int, int, int]] = SIZES,
) -> Symmetric:
    """With a config of what is asked for and defaults."""
    return Symmetric(name, tuple(BY_NAME[name].resolve_config(asked).items()), dtype, transposes, sizes)


VARIANTS = (
    symmetric("hopper_int8", "int8", {"block_n": 64, "stages": 3, "cluster": 1}, (False, False), FEW),
    symmetric("hopper_fp32", "float32", {"block_m": 128, "block_n": 128, "stages": 3}, (True, False)),
    symmetric("tensor_fp64", "float64", {"resident": 1, "stages": 3}, (False, True), FEW),
)


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of any size are mirrored, and not just those where that is quicker."""
    monkeypatch.setattr(triangle, "mirror_clocks", lambda _: -np.inf)


def operands(variant: Symmetric, n: int, k: int, number: int) -> tuple[Array, Array]:
    x = matrix((n, k), variant.dtype, np.random.default_rng(number), "integers")
    (of_a, of_b), turned = variant.transposes, np.ascontiguousarray(x.T)
    return (turned if of_a else x), (x if of_b else turned)


def expected_of(variant: Symmetric, pair: tuple[Array, Array]) -> Array:
    a = as_float64(pair[0].T if variant.transposes[0] else pair[0], variant.dtype)
    return (a @ a.T).astype(STORAGE_DTYPES[DTYPES[variant.dtype].product])


def run_of(variant: Symmetric, size: tuple[int, int, int], pair: tuple[Array, Array], order: int) -> Run:
    (n, k, multiprocessors), kernel, config = size, variant.kernel, variant.config
    problem = variant.problem(n, k)
    if kernel.boxes is not None:
        return boxed.run_of(kernel, config, boxed.Case(problem, multiprocessors), pair, order)
    plan = kernel.plan(problem, config)
    a, b = (spaced(each) for each in pair)
    c = spaced(np.empty((n, n), STORAGE_DTYPES[problem.product_dtype]), is_result=True)
    pitches = (each.layout.pitch for each in (a, b, c))
    assert plan.workspace is not None
    room = Memory((1, 1, plan.workspace.bytes), np.dtype(np.uint8), Layout(plan.workspace.bytes, 0))
    launch = replace(plan.main, grid=plan.main.on(multiprocessors))
    return Run(launch, (a, b, c, room), (n, n, k, *pitches, 0, 0, 0, 1), order, size)


def spaced(elements: Array, gap: int = 3, *, is_result: bool = False) -> Memory:
    rows, columns = elements.shape
    pitch = columns + gap
    contents = b"" if is_result else elements.tobytes()
    return Memory((1, rows, columns), elements.dtype, Layout(pitch, rows * pitch), contents, is_result)


def mirrored(c: Array, mirror: Mirror, emulator: Emulator, gap: int) -> Array:
    (memory, n) = spaced(c, gap), len(c)
    run = Run(mirror.launch, (replace(memory, is_result=True),), (n, memory.layout.pitch, int(mirror.from_lower)))
    ((found,),) = execute(emulator.compile(mirror_program(c.itemsize), "mirror"), [run])
    return found.reshape(n, n)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_symmetric_products_to_the_last_bit(variant: Symmetric, emulator: Emulator) -> None:
    pairs = [operands(variant, n, k, number) for number, (n, k, _) in enumerate(variant.sizes)]
    runs = [
        run_of(variant, size, pair, order) for order, (size, pair) in enumerate(zip(variant.sizes, pairs, strict=True))
    ]
    program = kernel_program(variant.kernel, variant.config, variant.problem(1, 1))
    assert "-DTRIANGLE" in program.options
    compiled = emulator.compile(program, variant.name)
    for (n, k, _), pair, (found,) in zip(variant.sizes, pairs, execute(compiled, runs), strict=True):
        mirror = variant.kernel.plan(variant.problem(n, k), variant.config).mirrored
        assert mirror is not None and mirror.from_lower == (variant.transposes != (False, False))
        expected, c = expected_of(variant, pair), found.reshape(n, n)
        half = np.tril if mirror.from_lower else np.triu
        np.testing.assert_array_equal(half(c), half(expected), err_msg=f"{variant} {n} {k}")
        if n > 256:  # what is left to the mirror starts as garbage
            far = (0, n - 1) if mirror.from_lower else (n - 1, 0)
            assert c[far] != expected[far]
        np.testing.assert_array_equal(mirrored(c, mirror, emulator, 4), expected, err_msg=f"{variant} {n} {k}")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_mirror(dtype: DTypeName, emulator: Emulator) -> None:
    """Rows in whole chunks and not; tiles at the diagonal and beside it, whole and with ends of any length."""
    rng = np.random.default_rng(5)
    for n, gap in ((1, 0), (64, 0), (65, 3), (130, 6), (200, 8)):
        c = matrix((n, n), dtype, rng)
        for lower in (True, False):
            launch = triangle._mirror_launch(Problem(n, n, 1, dtype))
            half = np.tril(c) + np.tril(c, -1).T if lower else np.triu(c) + np.triu(c, 1).T
            found = mirrored(c, Mirror(launch, lower), emulator, gap)
            np.testing.assert_array_equal(found.view(c.dtype), half, err_msg=f"{n} {gap} {lower}")
