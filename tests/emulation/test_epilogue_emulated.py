"""alpha·P + beta·C on the device, and the check of it, in the emulation, against the host's."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.activations import FLOAT32, ActivationName
from kernels.model.fused import FusedEpilogue
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTypeName, Problem
from tests.emulation import launches
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.products import stored
from worker.check.activations import interval
from worker.check.elements import as_float64
from worker.check.epilogue import After, wrong_elements
from worker.cpu.epilogue import add_epilogue
from worker.cuda.epilogue.plan import bias_steps, check_launch, epilogue_launch, sizes
from worker.cuda.pitch import Layout
from worker.cuda.sources import activation_check_program, epilogue_check_program, epilogue_program
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue

DTYPES: tuple[DTypeName, ...] = ("float16", "bfloat16", "float32", "float64", "int32")
FACTORS = [(1.0, 1.0), (-3.0, 0.0), (0.0, 2.0), (7.0, -5.0)]
Pair = tuple[Compiled, Compiled]
Factors = tuple[float, float]
Layouts = tuple[Layout, Layout, Layout]


NO_BIAS = (0, 0)
# What may follow, once with each activation and each type that D may have. The element type is that of A·B.
AFTER: tuple[tuple[DTypeName, ActivationName, DTypeName | None], ...] = (
    ("float32", "relu", "float16"),
    ("float32", "gelu", None),
    ("float64", "gelu_tanh", "float32"),
    ("bfloat16", "silu", None),
    ("float32", "silu", "bfloat16"),
)


@pytest.fixture(scope="module")
def kernels(emulator: Emulator, pool: Executor) -> Mapping[DTypeName, Pair]:
    def compiled(dtype: DTypeName) -> Pair:
        made = emulator.compile(epilogue_program(dtype), "epilogue")
        return made, emulator.compile(epilogue_check_program(dtype), "epilogue_check")

    return dict(zip(DTYPES, pool.map(compiled, DTYPES), strict=True))


def matrix(shape: tuple[int, ...], dtype: DTypeName, rng: np.random.Generator) -> Array:
    if dtype == "int32":
        return rng.integers(-(2**31), 2**31, shape, np.int64).astype(np.int32)
    values = rng.standard_normal(shape)
    values.flat[rng.integers(0, values.size, 3)] = (np.nan, np.inf, -np.inf)
    return stored(values, dtype)


def problem_of(shape: tuple[int, int, int], dtype: DTypeName) -> Problem:
    """One whose product is of this shape and type."""
    batch, m, n = shape
    return Problem.in_batch(m, n, 1, dtype, batch)


def expected(p: Array, c: Array, dtype: DTypeName, alpha: float, beta: float) -> Array:
    epilogue = Epilogue(alpha, beta, HostOperand(c) if beta else None)
    return add_epilogue(problem_of((p.shape[0], p.shape[1], p.shape[2]), dtype), epilogue, p).reshape(p.shape)


def layout_of(elements: Array, gap: int, between: int) -> Layout:
    """Rows `gap` elements apart, and matrices `between` rows."""
    batch, rows, columns = elements.shape
    return Layout("float32", batch, rows, columns, columns + gap, rows + between, in_groups=False)


def lying(elements: Array, layout: Layout) -> Memory:
    at = launches.Layout(layout.pitch, layout.kept_rows * layout.pitch)
    return Memory(elements.shape, elements.dtype, at, elements.tobytes())


def run_of(
    launch: Launch,
    memories: tuple[Memory, ...],
    layouts: Layouts,
    factors: Factors,
    order: int = 0,
    bias: tuple[int, int] = NO_BIAS,
) -> Run:
    return Run(launch, memories, (*sizes(*layouts), *np.array(factors).view(np.int64).tolist(), *bias), order)


def computed(kernel: Compiled, p: Array, c: Array, factors: Factors, order: int = 0) -> Array:
    layouts = layout_of(p, 3, 1), layout_of(c, 0, 2), layout_of(p, 0, 0)
    d = Memory(p.shape, p.dtype, launches.Layout(p.shape[2], p[0].size), is_result=True)
    memories = lying(p, layouts[0]), lying(c, layouts[1]), d, lying(c, layouts[1])
    ((found,),) = execute(kernel, [run_of(epilogue_launch(layouts[2]), memories, layouts, factors, order)])
    return found


def counted(kernel: Compiled, p: Array, c: Array, d: Array, factors: Factors) -> int:
    layouts = layout_of(p, 3, 1), layout_of(c, 0, 2), layout_of(d, 1, 0)
    wrong = Memory.flat(np.zeros(1, np.uint64), is_result=True)
    memories = *(lying(each, at) for each, at in zip((p, c, d), layouts, strict=True)), lying(c, layouts[1]), wrong
    ((found,),) = execute(kernel, [run_of(check_launch(layouts[2]), memories, layouts, factors)])
    return int(found.reshape(-1)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_bit_is_the_host_s(dtype: DTypeName, kernels: Mapping[DTypeName, Pair]) -> None:
    rng = np.random.default_rng(1)
    for order, (shape, items) in enumerate([((1, 37, 130), 1), ((3, 5, 261), 3), ((2, 33, 1), 1)]):
        p, c = matrix(shape, dtype, rng), matrix((items, *shape[1:]), dtype, rng)
        for alpha, beta in FACTORS:
            factors = (alpha, beta) if dtype == "int32" else (alpha * 1.1, beta / 3)
            found = computed(kernels[dtype][0], p, c, factors, order)
            wanted = expected(p, c, dtype, *factors)
            nan = np.zeros(p.shape, bool) if dtype == "int32" else np.isnan(as_float64(wanted, dtype))
            assert (found[~nan] == wanted[~nan]).all()
            assert counted(kernels[dtype][1], p, c, found, factors) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_check_counts_what_is_wrong(dtype: DTypeName, kernels: Mapping[DTypeName, Pair]) -> None:
    """One element by one bit, a row that was left out, and a C that is another."""
    rng = np.random.default_rng(2)
    p, c = (stored(rng.integers(1, 9, (2, 9, 70)).astype(np.float64), dtype) for _ in range(2))
    factors, check = (2.0, 3.0), kernels[dtype][1]
    right = expected(p, c, dtype, *factors)
    assert counted(check, p, c, right, factors) == 0
    bit, row = right.copy(), right.copy()
    bits = bit.view(f"u{bit.itemsize}")
    bits[1, 8, 69] ^= 1
    row[0, 4] = p[0, 4]
    assert counted(check, p, c, bit, factors) == 1
    assert counted(check, p, c, row, factors) == 70
    assert counted(check, p, np.roll(c, 1, axis=2), right, factors) > 0
    assert counted(check, p, c, right, (2.0, -3.0)) == right.size


@pytest.mark.parametrize(("dtype", "activation", "output"), AFTER)
def test_what_follows_passes_both_checks(
    dtype: DTypeName, activation: ActivationName, output: DTypeName | None, emulator: Emulator
) -> None:
    """A bias for each row or column, an activation, and another type: what the device gives passes the host's check,
    and what the host gives the device's, which counts a changed element."""
    kernel = emulator.compile(epilogue_program(dtype, activation, output, has_bias=True), "epilogue")
    check = emulator.compile(epilogue_check_program(dtype, activation, output, has_bias=True), "epilogue_check")
    rng = np.random.default_rng(3)
    shape, factors = (2, 21, 70), (1.5, -0.25)
    p, c = (matrix(each, dtype, rng) for each in (shape, (1, *shape[1:])))
    p.flat[:40] = stored(rng.uniform(-60, 12, 40), dtype)
    for of_bias in ((1, 70), (21, 1)):
        bias = stored(rng.standard_normal(of_bias), dtype)
        after, epilogue = After(bias, activation, output), Epilogue(*factors, HostOperand(c), HostOperand(bias))
        at = Layout("float32", 1, *of_bias, of_bias[1] + 5, of_bias[0], in_groups=False)
        layouts, steps = (layout_of(p, 3, 1), layout_of(c, 0, 2), layout_of(p, 1, 0)), bias_steps(at)
        host = add_epilogue(problem_of(shape, dtype), replace(epilogue, activation=activation, output=output), p)
        host = host.reshape(shape)
        given = *map(lying, (p, c), layouts[:2]), lying(bias[np.newaxis], at)
        d = Memory(shape, host.dtype, launches.Layout(layouts[2].pitch, shape[1] * layouts[2].pitch), is_result=True)
        launch = epilogue_launch(layouts[2])
        ((found,),) = execute(kernel, [run_of(launch, (*given[:2], d, given[2]), layouts, factors, 0, steps)])
        assert wrong_elements(found, p, c, *factors, dtype, after) == 0
        spoilt = host.copy()  # float64 is granted some last places
        spoilt.view(f"u{host.itemsize}")[1, 20, 69] ^= 1 << (8 if host.itemsize == 8 else 0)
        runs = [
            run_of(
                check_launch(layouts[2]),
                (*given[:2], lying(each, layouts[2]), given[2], Memory.flat(np.zeros(1, np.uint64), is_result=True)),
                layouts,
                factors,
                0,
                steps,
            )
            for each in (found, host, spoilt)
        ]
        assert [int(wrong.reshape(-1)[0]) for (wrong,) in execute(check, runs)] == [0, 0, 1]


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu"])
def test_a_kernel_s_activation_is_held_to_the_bound_of_float32(activation: ActivationName, emulator: Emulator) -> None:
    """What is at either end of the host's interval passes; a little beyond it, which is still within a few units of the
    last place, each element is counted."""
    check = emulator.compile(
        activation_check_program(FusedEpilogue("float32", activation=activation)), "epilogue_check"
    )
    rng = np.random.default_rng(4)
    z = rng.uniform(-9, 9, (1, 20, 70)).astype(np.float32)
    z[0, 0, :6] = (np.nan, np.inf, -np.inf, -300.0, 3e38, 0.0)
    lowest, highest = (each.astype(np.float32) for each in interval(activation, z.astype(np.float64), FLOAT32))
    beyond = np.isfinite(z) & (np.abs(z) > 1e-3)
    assert [counted(check, z, z, each, (1.0, 0.0)) for each in (lowest, highest)] == [0, 0]
    for bound, direction in ((highest, np.float32(np.inf)), (lowest, np.float32(-np.inf))):
        d = np.where(beyond, np.nextafter(np.nextafter(bound, direction), direction), bound)
        assert counted(check, z, z, d, (1.0, 0.0)) == np.count_nonzero(beyond)
    lowest, highest = lowest[np.abs(z) < 3], highest[np.abs(z) < 3]  # beyond, values are tiny or nearly z
    assert (highest - lowest <= 128 * np.spacing(np.abs(highest)) + 2.0**-140).all()
