"""8-bit operands with block scales on a real GPU: `hopper_fp8`, cublasLt's own product of such, and cuBLAS on operands
that are dequantised first."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.errors import OperandDamaged
from jobs.formats import float8
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.models import Verification
from kernels.catalog import BY_NAME
from kernels.model.accuracy import SMALLEST_POSITIVE, element_bound
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.gpu.check.fused import fused
from tests.gpu.products import choice
from tests.support.kernels.products import stored
from tests.support.scaled.operands import scaled_operands, scaled_problem, true_product
from worker.check.elements import as_float64
from worker.check.rounding import EPILOGUE_ROUNDINGS
from worker.check.verify import check
from worker.cuda.scaled.arrangement import by_stage
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, gathered
from worker.device.scaled import ScaledOperand

if TYPE_CHECKING:
    from worker.cuda.runner import CudaRunner

NAMES = ["hopper_fp8", "cublas", "cublas_fp8_blocks"]
TRANSPOSES = [(False, False), (False, True), (True, False), (True, True)]
Pair = tuple[ScaledOperand, ScaledOperand]


def multiply(
    runner: CudaRunner,
    name: str,
    problem: Problem,
    pair: Pair,
    rng: np.random.Generator,
    config: TileConfig = NO_CONFIG,
) -> tuple[Array, Verification]:
    with runner.compute(problem, choice(runner, name, problem, config), *pair) as product:
        verification = check(problem, BY_NAME[name].accuracy[problem.dtype], product.matrices, rng)
        product.verify_operands()
        given = gathered(product.chunks())
    return np.frombuffer(given, np.float32).reshape(problem.batch, problem.m, problem.n), verification


def assert_within_bound(problem: Problem, pair: Pair, c: Array, accuracy: Any = "fp8") -> float:
    """The largest error over the bound of its element."""
    true, size = true_product(problem, *pair)
    bound = element_bound(accuracy, "float8_e4m3", problem.k, is_scaled=True)
    off = np.abs(c - true) / (bound.sum * size + bound.output * np.abs(true) + bound.underflow)
    assert off.max(initial=0.0) <= 1.0, problem
    return float(off.max(initial=0.0))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("width", [1, 128])
def test_any_shape_and_transposition(runner: CudaRunner, name: str, width: int, rng: np.random.Generator) -> None:
    """One block and many, k that is odd or no multiple of 128, edges of tiles and of blocks."""
    for index, (m, n, k) in enumerate(
        ((1, 1, 1), (5, 6, 0), (64, 128, 128), (65, 129, 129), (130, 257, 127), (300, 500, 1157), (700, 1100, 4096))
    ):
        for transposes in TRANSPOSES:
            problem = scaled_problem(m, n, k, width, transpose_a=transposes[0], transpose_b=transposes[1])
            pair = scaled_operands(problem, rng, 1 + 127 * (index % 2))
            c, found = multiply(runner, name, problem, pair, rng)
            worst = assert_within_bound(problem, pair, c, "fp32" if name == "cublas" else "fp8")
            assert found.passed, (problem, found)
        print(f"{name} {width} {m}x{n}x{k}: {worst:.3g} of the bound")


@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("name", NAMES)
def test_batches(runner: CudaRunner, name: str, batched: tuple[bool, bool], rng: np.random.Generator) -> None:
    for width in (1, 128):
        problem = scaled_problem(70, 300, 333, width, batch=3, a_batched=batched[0], b_batched=batched[1])
        pair = scaled_operands(problem, rng)
        c, found = multiply(runner, name, problem, pair, rng)
        assert_within_bound(problem, pair, c)
        assert found.passed


def test_configs_give_the_same_bits(runner: CudaRunner, rng: np.random.Generator) -> None:
    """They add the same sums in the same order. Many waves would show a race."""
    for width, columns in ((128, (64, 128, 256)), (1, (64, 128, 192, 256))):
        for m, n, k in ((321, 449, 1024), (4160, 4097, 2048), (1500, 2500, 5000)):
            problem = scaled_problem(m, n, k, width, transpose_b=True)
            pair = scaled_operands(problem, rng)
            configs = [{"block_n": block_n} for block_n in columns] + [{"block_n": 128, "cluster": 1, "stages": 3}]
            first, *others = (multiply(runner, "hopper_fp8", problem, pair, rng, config)[0] for config in configs)
            for other in others:
                np.testing.assert_array_equal(other, first, err_msg=str(problem))


def test_scales_of_one_change_nothing(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = scaled_problem(700, 900, 2000, transpose_b=True)
    pair = scaled_operands(problem, rng)
    for each in pair:
        each.scales.elements[:] = 1.0
    c, _ = multiply(runner, "hopper_fp8", problem, pair, rng)
    plain = Problem(700, 900, 2000, "float8_e4m3", transpose_b=True)
    a, b = (HostOperand(each.elements) for each in pair)
    with runner.compute(plain, choice(runner, "hopper_fp8", plain), a, b) as product:
        given = np.frombuffer(gathered(product.chunks()), np.float32).reshape(c.shape)
    np.testing.assert_array_equal(c, given)


def test_constant_data_drift_within_a_block_alone(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = scaled_problem(130, 140, 40_000)
    pair = scaled_operands(problem, rng)
    for each, value in zip(pair, (1.0, 1.125), strict=True):
        each.elements[:] = float8.narrow(np.full(1, value, np.float32))
        each.scales.elements[:] = 3.0
    c, found = multiply(runner, "hopper_fp8", problem, pair, rng)
    assert found.passed and np.abs(c / (40_000 * 1.125 * 9) - 1).max() < 1e-3


@pytest.mark.parametrize("sizes", [(60, 70, 400), (900, 1100, 1500)])
def test_faults_are_caught(runner: CudaRunner, sizes: tuple[int, int, int], rng: np.random.Generator) -> None:
    """Scales that the kernel reads and those of the check differ in one element, or lie a block apart."""
    problem = scaled_problem(*sizes, transpose_b=True)
    pair = scaled_operands(problem, rng)
    for each in pair:
        each.scales.elements[:] = rng.uniform(0.5, 2, each.scales.elements.shape)

    def one_off(*asked: Any) -> Array:
        scales = by_stage(*asked)
        scales[0, 1, 0] *= 1.5
        return scales

    def a_block_later(*asked: Any) -> Array:
        return np.roll(by_stage(*asked), 1, axis=1)

    def neighbours_swapped(*asked: Any) -> Array:
        scales = by_stage(*asked)
        scales[0, 0, :2] = scales[0, 0, 1::-1].copy()
        return scales

    for fault in (one_off, a_block_later, neighbours_swapped):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("worker.cuda.scaled.on_device.by_stage", fault)
            _, found = multiply(runner, "hopper_fp8", problem, pair, rng)
        assert found.passed is False, fault
    assert multiply(runner, "hopper_fp8", problem, pair, rng)[1].passed


def test_scales_that_changed_are_noticed(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = scaled_problem(900, 1100, 300)
    a, b = scaled_operands(problem, rng)
    damaged = ScaledOperand(b.stored, HostOperand(b.scales.elements, digest=1), b.block)
    with pytest.raises(OperandDamaged):
        multiply(runner, "hopper_fp8", problem, (a, damaged), rng)


def test_it_is_delivered_in_16_bits(runner: CudaRunner, rng: np.random.Generator) -> None:
    problem = scaled_problem(500, 600, 700)
    pair = scaled_operands(problem, rng)
    epilogue = Epilogue(1.0, 0.0, None, output="bfloat16")
    with runner.compute(problem, choice(runner, "hopper_fp8", problem), *pair, epilogue=epilogue) as product:
        assert check(problem, "fp8", product.matrices, rng).passed and product.wrong_elements() == 0
        bits = np.frombuffer(gathered(product.chunks()), np.uint16).astype(np.uint32) << 16
    plain, _ = multiply(runner, "hopper_fp8", problem, pair, rng)
    np.testing.assert_allclose(bits.view(np.float32), plain.reshape(-1), rtol=2.0**-8)


@pytest.mark.parametrize("output", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("width", [1, 128])
def test_the_kernel_itself_adds_and_rounds(
    runner: CudaRunner, width: int, output: DTypeName, rng: np.random.Generator
) -> None:
    """alpha and one rounding, in every element, with C and a bias where these are of D's type; what float16 cannot hold
    is infinite."""
    for m, n, k in ((1000, 900, 303), (640, 1536, 288), (129, 4099, 520), (3000, 2500, 700)):
        problem = scaled_problem(m, n, k, width, transpose_b=n != 900)
        pair = scaled_operands(problem, rng)
        c, bias = (stored(rng.standard_normal(shape) * 100, "float32") for shape in ((m, n), (1, n)))
        epilogue = Epilogue(0.3, 0.0, None, output=output, may_fuse=True)
        if output == "float32":
            epilogue = replace(epilogue, beta=-0.75, c=HostOperand(c), bias=HostOperand(bias))
        with fused(runner, "hopper_fp8", problem, pair, epilogue) as product:
            assert check(problem, "fp8", product.matrices, rng).passed, problem
            product.verify_operands()
            d = as_float64(np.frombuffer(gathered(product.chunks()), STORAGE_DTYPES[output]).reshape(m, n), output)
        added = (-0.75 * c.astype(np.float64), bias.astype(np.float64)) if output == "float32" else (0.0,)
        true, size = true_product(problem, *pair)
        true, terms = 0.3 * true[0] + sum(added), 0.3 * size[0] + sum(map(np.abs, added))
        bound = element_bound("fp8", "float8_e4m3", k, is_scaled=True).sum * 0.3 * size[0]
        bound += EPILOGUE_ROUNDINGS * 2.0**-24 * terms
        bound += DTYPES[output].unit_roundoff * (np.abs(true) + bound) + SMALLEST_POSITIVE[output]
        most = {"float16": 65504.0}.get(output, np.inf)
        fits, overflows = np.abs(true) + bound < most, np.abs(true) - bound > most * (1 + 2.0**-11)
        assert (np.abs(d - true) <= bound)[fits].all() and np.isinf(d[overflows]).all(), problem
        assert fits.mean() > 0.1


def test_a_wrong_epilogue_is_found(runner: CudaRunner, rng: np.random.Generator) -> None:
    from worker.cuda.epilogue.fused import FusedOnDevice

    problem = scaled_problem(1500, 1600, 700, transpose_b=True)
    pair = scaled_operands(problem, rng)
    for factor, is_right in ((1.0, True), (2.0, False)):  # 1 % is within what 8-bit sums may be off by
        epilogue = Epilogue(0.5, 0.0, None, output="bfloat16", may_fuse=True)
        with pytest.MonkeyPatch.context() as patch:
            told = FusedOnDevice.launch

            def launch(self: FusedOnDevice, told: Any = told, factor: float = factor) -> None:
                told(replace(self, fusable=replace(self.fusable, alpha=self.fusable.alpha * factor)))

            patch.setattr(FusedOnDevice, "launch", launch)
            with fused(runner, "hopper_fp8", problem, pair, epilogue) as product:
                assert check(problem, "fp8", product.matrices, rng).passed is is_right
