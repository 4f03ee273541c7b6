"""Products whose tiles are cut along k (hopper_cut.cuh), on the CPU under sanitizers: blocks in several orders, so each
part of a tile comes last in some run; what follows the sums comes with the last."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.entries.hopper.waves import cut_always
from kernels.model.activations import FLOAT32
from kernels.model.entry.config import TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from tests.emulation.boxed import Case, run_of
from tests.emulation.hopper.test_hopper_epilogue_emulated import addends_of, expected
from tests.emulation.launches import execute
from tests.emulation.programs import Emulator
from tests.support.kernels.products import in_float64, operands, stored
from worker.check.elements import as_float64
from worker.check.epilogue import After, wrong_elements
from worker.cuda.sources import kernel_program

ORDERS = (0, 1, 2)  # rising, falling, shuffled
# Each with multiprocessors: several parts of a tile, and two; an odd end of k; rows of warps outside C; a batch; more
# multiprocessors than parts; as many tiles as these, and more, which are not cut.
CASES = (
    Case(Problem(128, 64, 64 * 13, "bfloat16", 1, False, True), 3),
    Case(Problem(256, 64, 64 * 9 + 5, "bfloat16", 1, False, True), 5),
    Case(Problem(257, 65, 64 * 8, "bfloat16", 1, False, True), 13),
    Case(Problem(33, 40, 64 * 21 + 1, "bfloat16", 1, False, True), 5),
    Case(Problem(30, 70, 64 * 8, "bfloat16", 3, False, True, True, True), 12),
    Case(Problem(256, 64, 64 * 5, "bfloat16", 1, False, True), 2),
    Case(Problem(384, 64, 64 * 3, "bfloat16", 1, False, True), 2),
)


def cutting(name: str) -> CudaKernel:
    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    return cut_always(kernel)


def config_of(kernel: CudaKernel, block_n: int) -> TileConfig:
    return kernel.resolve_config({"block_n": block_n, "stages": 3, "cluster": 1})


@pytest.mark.parametrize("block_n", [64, 160])
def test_cut_products_are_right(emulator: Emulator, block_n: int) -> None:
    """To the last bit, in every order; counters are left as they were found."""
    kernel, rng = cutting("hopper_bf16"), np.random.default_rng(5)
    config = config_of(kernel, block_n)
    compiled = emulator.compile(kernel_program(kernel, config, CASES[0].problem), kernel.name)
    cases = [(case, operands(case.problem, rng, "integers"), order) for case in CASES for order in ORDERS]
    runs = [run_of(kernel, config, *each) for each in cases]
    for (case, pair, order), (found, counters) in zip(cases, execute(compiled, runs), strict=True):
        exact = stored(in_float64(case.problem, *pair)[0], "bfloat16")
        np.testing.assert_array_equal(found, exact.reshape(found.shape), err_msg=f"{case} {order}")
        assert not counters.any(), case


def test_bits_do_not_depend_on_who_comes_last(emulator: Emulator) -> None:
    kernel, rng = cutting("hopper_bf16"), np.random.default_rng(6)
    config, case = config_of(kernel, 64), Case(Problem(30, 64, 64 * 33, "bfloat16", 1, False, True), 5)
    pair = operands(case.problem, rng)
    compiled = emulator.compile(kernel_program(kernel, config, case.problem), kernel.name)
    results = execute(compiled, [run_of(kernel, config, case, pair, order) for order in range(5)])
    assert all(np.array_equal(found, results[0][0]) for found, _ in results)


def test_what_follows_sums(emulator: Emulator) -> None:
    """C, a bias for rows or for columns, and an activation, of float32 where operands have 16 bits."""
    kernel, rng = cutting("hopper_fp16"), np.random.default_rng(7)
    fused = FusedEpilogue("float32", has_c=True, has_bias=True, activation="silu")
    config, kind = config_of(kernel, 64), Problem(1, 1, 64, "float16", transpose_b=True)
    compiled = emulator.compile(kernel_program(kernel, config, kind, fused=fused), kernel.name)
    given = []
    for number, case in enumerate(CASES):
        case = replace(case, problem=replace(case.problem, dtype="float16"))
        pair, after = operands(case.problem, rng), addends_of(case.problem, fused, number, rng)
        given.append((case, pair, after, run_of(kernel, config, case, pair, number, after)))
    activated = After(activation="silu", arithmetic=FLOAT32)
    for (case, pair, after, _), (d, z, _) in zip(given, execute(compiled, [run for *_, run in given]), strict=True):
        true, allowed = expected(case.problem, pair, after)
        assert np.all(abs(as_float64(z, fused.output) - true) <= allowed), case
        assert wrong_elements(d, z, None, 1.0, 0.0, fused.output, activated) == 0, case
