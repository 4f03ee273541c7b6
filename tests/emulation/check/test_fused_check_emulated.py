"""The check of alpha·A·B + beta·C + bias that was rounded once, in the emulation: it passes what float32 and that
rounding explain, and faults of sums, addends and single elements do not pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.fused import FusedEpilogue
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.kernels.products import matrix, stored
from worker.check.elements import as_float64
from worker.check.rounding import Rounding, rounding_of
from worker.check.sketch import VECTORS, signed_weights
from worker.cuda.sources import fused_check_program

ALPHA, BETA = 0.75, -2.0
M, N, K, ITEMS, WIDTH = 37, 70, 24, 2, 64
THREADS, WARPS, ROWS = 256, 8, 4  # as in fused_check.cu
CASE: tuple[DTypeName, FusedEpilogue] = ("bfloat16", FusedEpilogue("bfloat16", has_c=True, has_bias=True))


@dataclass(frozen=True, slots=True)
class Kernels:
    size_of_a: Compiled
    weigh_addends: Compiled
    fused_check: Compiled


class Given:
    """Operands, C for the batch, and a bias, with D as it should be."""

    def __init__(self, dtype: DTypeName, fused: FusedEpilogue, of_rows: bool) -> None:
        rng = np.random.default_rng(5)
        self.dtype, self.fused = dtype, fused
        self.a, self.b = matrix((ITEMS, M, K), dtype, rng), matrix((1, K, N), dtype, rng)
        self.c = matrix((1, M, N), fused.output, rng)
        self.bias = stored(rng.standard_normal((M, 1) if of_rows else (1, N)) * 3, fused.output)
        problem = Problem(M, N, K, dtype, ITEMS, a_batched=True)
        self.rounding = rounding_of(problem, DTYPES[dtype].accuracy).fused(ALPHA, fused.output)

    def d(self, alpha: float = ALPHA, beta: float = BETA, of_bias: float = 1.0) -> Array:
        total = alpha * (as_float64(self.a, self.dtype) @ as_float64(self.b, self.dtype))
        total = total + beta * as_float64(self.c, self.fused.output)
        return stored(total + of_bias * as_float64(self.bias, self.fused.output), self.fused.output)


@pytest.fixture(scope="module")
def kernels(emulator: Emulator) -> Kernels:
    program = fused_check_program(*CASE)
    return Kernels(*(emulator.compile(program, name) for name in Kernels.__dataclass_fields__))


def lying(elements: Array, gap: int) -> Memory:
    _, rows, columns = elements.shape
    return Memory(
        elements.shape, elements.dtype, Layout(columns + gap, (rows + 1) * (columns + gap)), elements.tobytes()
    )


def word(value: float) -> int:
    return int(np.float64(value).view(np.int64))


def steps_of(bias: Array) -> tuple[int, int]:
    rows, columns = bias.shape
    return 0 if rows == 1 else columns, 0 if columns == 1 else 1


def weights_of(given: Given, kernels: Kernels) -> tuple[Array, Array, Array]:
    """x (1, n, 8), w (1, n) and the squares that they follow from, as the sketch draws them."""
    of_a, c, bias = lying(given.a, 3), lying(given.c, 1), Memory.flat(given.bias)
    zero = Memory.flat(np.zeros(1), is_result=True)
    numbers = (M, K, of_a.layout.pitch, of_a.layout.stride, ITEMS)
    ((size,),) = execute(kernels.size_of_a, [Run(Launch((2, 1, 1), (THREADS, 1, 1)), (of_a, zero), numbers)])
    np.testing.assert_allclose(size.reshape(-1), np.square(as_float64(given.a, given.dtype)).sum(), rtol=1e-12)
    before = np.square(as_float64(given.b, given.dtype)).sum(axis=1)
    peaks = Memory.flat(before.reshape(-1), is_result=True)
    memories = (c, bias, Memory.flat(size.reshape(-1)), peaks)
    lie = (c.layout.pitch, 0, *steps_of(given.bias))
    factors = (word(ALPHA), word(BETA), ITEMS * M)
    run = Run(Launch((1, 3, ITEMS), (THREADS, 1, 1)), memories, (M, N, ITEMS, 1, *lie, *factors))
    ((found,),) = execute(kernels.weigh_addends, [run])
    found = found.reshape(1, N)
    exponents = np.ceil(np.log2(np.sqrt(found)))
    x = signed_weights(np.random.default_rng(6), (1, N, VECTORS), np.float64) * np.exp2(-exponents)[..., np.newaxis]
    return x, 7 / 3 * np.exp2(-2 * exponents), found - before


def judged(given: Given, kernels: Kernels, of_d: list[Array], weights: tuple[Array, Array]) -> list[dict[str, Array]]:
    """The arrays that the sketch and this share, after the launch, for each D."""
    x, w = weights
    a, b = as_float64(given.a, given.dtype), as_float64(given.b, given.dtype)
    at = [slice(first, first + WIDTH) for first in range(0, N, WIDTH)]
    q = np.stack([np.square(a) @ (np.square(b[0, :, columns]) @ w[0, columns]) for columns in at], axis=2)
    arrays = {
        "p": np.stack([a @ (b[:, :, columns] @ x[:, columns]) for columns in at], axis=2),
        "q": q,
        "r": np.full(q.shape, 9.0),
        "x": x,
        "w": w,
        "unit": np.stack([w[:, columns].sum(axis=1) for columns in at], axis=1),
        "bad_rows": np.zeros(ITEMS * M, np.uint8),
        "bad_columns": np.zeros(N, np.uint8),
        "odd_columns": np.zeros((ITEMS, N), np.uint8),
        "difference": np.full(q.shape, 9.0),
        "worst": np.zeros(1),
    }
    shared = [Memory.flat(array.reshape(-1), is_result=True) for array in arrays.values()]
    d, c, rounding = [lying(each, 2) for each in of_d], lying(given.c, 1), given.rounding
    lie = (d[0].layout.pitch, d[0].layout.stride, c.layout.pitch, 0, *steps_of(given.bias))
    factors = (ALPHA, BETA, *rounding.fused_factors, rounding.tolerance_factors[2])
    numbers = (M, N, ITEMS, 1, 1, WIDTH, len(at), *lie, *map(word, factors))
    launch = Launch((-(-ITEMS * len(at) * -(-M // ROWS) // WARPS), 1, 1), (THREADS, 1, 1))
    runs = [Run(launch, (each, c, Memory.flat(given.bias), *shared), numbers, order) for order, each in enumerate(d)]
    return [
        {name: each.reshape(array.shape) for (name, array), each in zip(arrays.items(), found, strict=True)}
        for found in execute(kernels.fused_check, runs)
    ]


def worst_of(found: dict[str, Array]) -> float:
    return float(np.sqrt(found["worst"][0]))


def host_ratios(found: dict[str, Array], rounding: Rounding) -> Array:
    """As `row_errors` has them of the same arrays."""
    underflow = rounding.underflow * np.sqrt(found["unit"])[:, np.newaxis]
    return found["difference"] / np.sqrt(rounding.squared_tolerance(found["q"], found["r"], underflow))


def test_what_is_right_passes_and_faults_do_not(kernels: Kernels) -> None:
    """Another alpha, no bias, a shifted D, another beta; and one element, which shows in its row and group alone."""
    given = Given(*CASE, of_rows=True)
    x, w, _ = weights_of(given, kernels)
    right, one = given.d(), given.d()
    one[1, M - 1, N - 1] = stored(np.array(60.0), given.fused.output)
    wrong = [given.d(alpha=0.5), given.d(of_bias=0.0), np.roll(right, 1, axis=2), np.roll(right, 1, axis=1)]
    wrong.append(given.d(beta=-BETA))
    found, of_one, *others = judged(given, kernels, [right, one, *wrong], (x, w))
    assert worst_of(found) <= 1.0 and not found["odd_columns"].any()
    np.testing.assert_allclose(host_ratios(found, given.rounding).max(), worst_of(found), rtol=1e-6)
    assert np.argwhere(host_ratios(of_one, given.rounding) > 1.0).tolist() == [[1, M - 1, 1]]
    assert all(worst_of(each) > 1.0 for each in others)


def test_what_is_not_finite_is_looked_at_by_columns(kernels: Kernels) -> None:
    """Of D and of C alike."""
    given = Given(*CASE, of_rows=False)
    x, w, _ = weights_of(given, kernels)
    d = given.d()
    d[0, 3, 5] = stored(np.array(np.inf), given.fused.output)
    given.c[0, 7, 9] = stored(np.array(np.nan), given.fused.output)
    (found,) = judged(given, kernels, [d], (x, w))
    assert found["worst"][0] == np.inf
    assert np.argwhere(found["odd_columns"]).tolist() == [[0, 5], [0, 9], [1, 9]]


def test_a_column_weighs_by_what_is_added_to_it(kernels: Kernels) -> None:
    """Or one of B that is tiny beside its bias would drown its whole group: a fault elsewhere is still found."""
    given = Given(*CASE, of_rows=False)
    given.b[0, :, 11] = stored(np.full(K, 2.0**-14), given.dtype)
    x, w, added = weights_of(given, kernels)
    norm = np.square(as_float64(given.a, given.dtype)).sum(axis=2).mean()
    of_c = np.square(BETA * as_float64(given.c, given.fused.output)).mean(axis=1)
    mean = (of_c + np.square(as_float64(given.bias, given.fused.output))) / (ALPHA**2 * norm)
    np.testing.assert_allclose(added, np.broadcast_to(mean, added.shape), rtol=1e-9)
    right, wrong = given.d(), given.d()
    wrong[0, 4, 12] = stored(np.array(500.0), given.fused.output)
    first, second = judged(given, kernels, [right, wrong], (x, w))
    assert worst_of(first) <= 1.0 < worst_of(second)
