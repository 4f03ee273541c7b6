"""alpha·A·B + beta·C, a bias and an activation in the Hopper kernels themselves, on the CPU under sanitizers, against
float64: every element is within what float32 sums and one rounding explain, what is activated follows from it by the
host's check, and nothing else is read or written."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from kernels.catalog import BY_NAME
from kernels.model.activations import FLOAT32
from kernels.model.entry.config import TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.emulation.boxed import Addends, Case, run_of
from tests.emulation.launches import execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.products import in_float64, matrix, operands
from worker.check.elements import as_float64
from worker.check.epilogue import After, wrong_elements
from worker.cuda.sources import kernel_program

ALPHA, BETA = -1.75, 0.1
ROUNDINGS, UNIT = 6, 2.0**-24  # of float32 after the sum: both factors, two products and two sums
SMALLEST = 2.0**-24  # of float16
Variant = tuple[str, DTypeName, TileConfig, FusedEpilogue]
SMALL, DEEP = {"block_n": 64, "stages": 3}, {"block_n": 128, "stages": 6}
TALL, WIDE = {"block_m": 192, "block_n": 144, "stages": 4}, {"block_n": 224, "stages": 4}  # not whole boxes
ONE_BOX = {"block_m": 192, "block_n": 192, "stages": 4}
# Both ways that sums lie in registers, both sizes of what is stored, with C and a bias and without; more boxes of C
# than there is room for at once. Each activation once, in place of what it is of and beside it.
VARIANTS: list[Variant] = [
    ("hopper_bf16", "bfloat16", SMALL, FusedEpilogue("bfloat16", has_c=True, has_bias=True)),
    ("hopper_bf16", "bfloat16", SMALL, FusedEpilogue("bfloat16", has_bias=True, activation="gelu")),
    ("hopper_fp16", "float16", DEEP, FusedEpilogue("float32", has_c=True, has_bias=True, activation="silu")),
    ("hopper_bf16", "bfloat16", TALL, FusedEpilogue("bfloat16", has_c=True, has_bias=True, activation="relu")),
    ("hopper_fp16", "float16", WIDE, FusedEpilogue("float32", has_c=True, has_bias=True)),
    ("hopper_fp8", "float8_e4m3", SMALL, FusedEpilogue("bfloat16", has_bias=True)),
    ("hopper_tf32", "float32", SMALL, FusedEpilogue("float32", has_c=True, has_bias=True, activation="relu")),
    ("hopper_tf32", "float32", ONE_BOX, FusedEpilogue("float32", has_bias=True, activation="gelu_tanh")),
]


def some_cases(dtype: DTypeName) -> Iterator[Case]:
    """Less than a box; edges of boxes and of tiles, odd widths; several tiles for a block; a batch. Operands of 16 bits
    along k, as the emulation has them."""
    step, along_k = 128 // DTYPES[dtype].itemsize, dtype != "float32"
    for m, n, k, batch in (
        (1, 1, 1, 1),
        (65, 33, step + 1, 1),
        (140, 130, 2 * step, 1),
        (200, 370, step, 1),
        (40, 70, step + 4, 2),
    ):
        many = batch > 1
        yield Case(Problem(m, n, k, dtype, batch, False, along_k, many, many), 2)


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda v: f"{v[0]}-{v[3].output}-{v[3].activation}")
def variant(request: pytest.FixtureRequest) -> Variant:
    name, dtype, settings, fused = request.param
    return name, dtype, BY_NAME[name].resolve_config({**settings, "cluster": 1}), fused


@pytest.fixture(scope="module")
def compiled(variant: Variant, emulator: Emulator) -> Compiled:
    name, dtype, config, fused = variant
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    problem = Problem(1, 1, 1, dtype, transpose_b=dtype != "float32")
    return emulator.compile(kernel_program(kernel, config, problem, fused=fused), name)


def addends_of(problem: Problem, fused: FusedEpilogue, number: int, rng: np.random.Generator) -> Addends:
    """C, which serves a whole batch or not, and a bias for rows or for columns."""
    items = problem.batch if number % 2 else 1
    c = matrix((items, problem.m, problem.n), fused.output, rng)
    bias = matrix((1, problem.n) if number % 2 else (problem.m, 1), fused.output, rng)
    return Addends(fused, ALPHA, BETA, c, bias)


def expected(problem: Problem, pair: tuple[Array, Array], given: Addends) -> tuple[Array, Array]:
    """In float64, and what an element may be off by."""
    fused, shape = given.fused, (problem.batch, problem.m, problem.n)
    sums, size = (each.reshape(shape) for each in in_float64(problem, *pair))
    terms = [BETA * as_float64(given.c, fused.output)] * fused.has_c
    terms += [as_float64(given.bias, fused.output)[np.newaxis]] * fused.has_bias
    true, size = ALPHA * sums, abs(ALPHA) * size
    for term in terms:
        true, size = true + term, size + np.abs(term)
    off = (problem.k + ROUNDINGS) * UNIT * size
    return true, off + DTYPES[fused.output].unit_roundoff * (np.abs(true) + off) + SMALLEST


def test_every_element_is_within_its_bound(variant: Variant, compiled: Compiled) -> None:
    name, dtype, config, fused = variant
    kernel, rng = BY_NAME[name], np.random.default_rng(11)
    assert isinstance(kernel, CudaKernel)
    cases = list(some_cases(dtype))
    pairs = [operands(case.problem, rng, "integers") for case in cases]
    added = [addends_of(case.problem, fused, number, rng) for number, case in enumerate(cases)]
    runs = [
        run_of(kernel, config, case, pair, order, given)
        for order, (case, pair, given) in enumerate(zip(cases, pairs, added, strict=True))
    ]
    for case, pair, given, found in zip(cases, pairs, added, execute(compiled, runs), strict=True):
        d, z = found[0], found[-1]
        assert d.dtype == STORAGE_DTYPES[fused.output] and len(found) == 1 + (fused.activation is not None)
        true, bound = expected(case.problem, pair, given)
        off = np.abs(as_float64(z, fused.output) - true)
        assert (off <= bound).all(), (case, np.argwhere(off > bound)[:5])
        if fused.activation is not None:
            after = After(activation=fused.activation, arithmetic=FLOAT32)
            assert wrong_elements(d, z, None, 1.0, 0.0, fused.output, after) == 0
            assert wrong_elements(z, z, None, 1.0, 0.0, fused.output, after) > 0
