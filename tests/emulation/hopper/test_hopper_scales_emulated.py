"""hopper_fp8 with block scales on the CPU under sanitizers, the whole kernel: which scale each sum is multiplied by, at
edges of tiles, of blocks of scales and of batches. Matrix instructions and bulk copies come as late as they may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from tests.emulation.boxed import Case, run_of
from tests.emulation.launches import Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from tests.support.scaled.operands import scaled_operands, scaled_problem, true_product
from worker.cuda.scaled.arrangement import by_stage, for_bulk_copies
from worker.cuda.sources import kernel_program
from worker.device.scaled import ScaledOperand

KERNEL = BY_NAME["hopper_fp8"]
Variant = tuple[int, int, int]  # columns of B that share a scale, block_n, stages
VARIANTS: list[Variant] = [(128, 256, 4), (1, 256, 3), (1, 192, 3)]
ROUNDOFF = 2.0**-24


def some_cases(width: int) -> Iterator[Case]:
    """Less than a block, and no k; one block of k, many, and one step more; edges of blocks of columns and of tiles;
    several tiles for a block; batches, one of whose operands serves all."""
    for m, n, k, multiprocessors in (
        (1, 1, 1, 2),
        (5, 6, 0, 2),
        (64, 129, 129, 1),
        (70, 257, 127, 1),
        (3, 140, 9 * 128 + 5, 2),
    ):
        yield Case(scaled_problem(m, n, k, width, transpose_b=True), multiprocessors)
    yield Case(scaled_problem(9, 70, 257, width, batch=3, transpose_b=True, b_batched=True), 1)
    yield Case(scaled_problem(17, 9, 140, width, batch=2, transpose_b=True, a_batched=True, b_batched=True), 3)


def config_of(variant: Variant) -> TileConfig:
    _, columns, stages = variant
    return KERNEL.resolve_config({"block_n": columns, "stages": stages, "cluster": 1})


@pytest.fixture(scope="module", params=VARIANTS, ids=lambda v: "-".join(map(str, v)))
def variant(request: pytest.FixtureRequest) -> Variant:
    found: Variant = request.param
    return found


@pytest.fixture(scope="module")
def compiled(variant: Variant, emulator: Emulator) -> Compiled:
    assert isinstance(KERNEL, CudaKernel)
    problem = scaled_problem(1, 1, 1, variant[0], transpose_b=True)
    return emulator.compile(kernel_program(KERNEL, config_of(variant), problem), KERNEL.name)


def scaled_run(config: TileConfig, case: Case, pair: tuple[ScaledOperand, ScaledOperand], order: int) -> Run:
    assert isinstance(KERNEL, CudaKernel)
    plain = run_of(KERNEL, config, case, (pair[0].elements, pair[1].elements), order)
    scales = [by_stage(case.problem, each, name) for each, name in zip(pair, "ab", strict=True)]
    scales[1] = for_bulk_copies(case.problem, scales[1])
    pitches = [each.shape[2] for each in scales]
    strides = [each[0].size if len(each) > 1 else 0 for each in scales]
    memories = (*plain.memories, *map(Memory.flat, scales))
    return replace(plain, memories=memories, numbers=(*plain.numbers, *pitches, *strides))


def test_products_within_the_rounding_of_float32(variant: Variant, compiled: Compiled) -> None:
    rng = np.random.default_rng(7)
    cases = [*some_cases(variant[0])]
    pairs = [scaled_operands(case.problem, rng, 1 + 127 * (i % 2)) for i, case in enumerate(cases)]
    runs = [scaled_run(config_of(variant), *each, order) for order, each in enumerate(zip(cases, pairs, strict=True))]
    for case, pair, (found,) in zip(cases, pairs, execute(compiled, runs), strict=True):
        true, size = true_product(case.problem, *pair)
        steps = min(case.problem.k, 128) + case.problem.k / 128 + 3
        assert (np.abs(found - true) <= steps * ROUNDOFF * size).all(), case


MISTAKES = [
    ("column / 128 * 4", "0"),
    ("first_a + 32)", "first_a)"),
    ("read_one(of_b + block * 16)", "read_one(of_b)"),
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_found(emulator: Emulator, tmp_path: Path, mistake: tuple[str, str]) -> None:
    """Each in a copy of the header, which is found first."""
    variant = 128, 256, 4
    source = KERNEL.source_path if isinstance(KERNEL, CudaKernel) else Path()
    assert isinstance(KERNEL, CudaKernel)
    for path in source.parent.glob("*.cu*"):
        text = path.read_text()
        if path.name == "hopper_scales.cuh":
            assert text.count(mistake[0]) == 1, mistake
            text = text.replace(*mistake)
        (tmp_path / path.name).write_text(text)
    program = kernel_program(KERNEL, config_of(variant), scaled_problem(1, 1, 1, 128, transpose_b=True))
    broken = emulator.compile(replace(program, path=tmp_path / source.name), KERNEL.name)
    case = Case(scaled_problem(17, 300, 200, transpose_b=True), 1)
    pair = scaled_operands(case.problem, np.random.default_rng(5))
    for each in pair:
        each.scales.elements[:] = np.exp2(np.random.default_rng(6).integers(-6, 6, each.scales.shape))
    true, size = true_product(case.problem, *pair)
    ((found,),) = execute(broken, [scaled_run(config_of(variant), case, pair, 1)])
    assert not (np.abs(found - true) <= 200 * ROUNDOFF * size).all()
