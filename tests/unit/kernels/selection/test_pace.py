"""Coefficients of a kernel's time, fitted to rows of a table."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import pytest

from benchmarks.measure.auto_sample import draw
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import Problem
from kernels.selection.paces.pace import MIN_ROWS, pace_of
from kernels.selection.paces.library import OF_LIBRARY
from kernels.selection.paces.terms import terms_of
from kernels.selection.tuned import Entry, TunedTable
from tests.support.kernels.tuned import GPU, entry, row, table

PIPELINED, CUBLAS = BY_NAME["pipelined"], BY_NAME["cublas"]
CONFIG = dict(PIPELINED.resolve_config(NO_CONFIG, Problem(4096, 4096, 4096, "float32"), GPU))
BASE_US, WAVE_US = 7.0, 3.0  # of a launch, and of a wave of tiles for each hundred steps of k


def us_of(problem: Problem) -> float:
    terms = terms_of(PIPELINED, CONFIG, problem, GPU.multiprocessors)
    return BASE_US + WAVE_US * terms[4]


def made(count: int, slower: dict[int, float] | None = None) -> TunedTable:
    """Random products by a kernel that takes exactly that, but for some rows, and by a library at 10 TFLOPS."""
    entries: list[Entry] = []
    for number, (m, n, k) in enumerate(draw(count, 5, 8192)):
        problem = Problem(m, n, k, "float32")
        gflops = problem.flops / us_of(problem) * 1e-3 / (slower or {}).get(number, 1.0)
        rows = sorted((row("pipelined", gflops, CONFIG), row("cublas", 1e4)), key=lambda one: -one.gflops)
        entries.append(replace(entry(m, rows=rows), n=n, k=k))
    return table(entries=entries)


def expected_us(found: TunedTable, problem: Problem, kernel: Kernel = PIPELINED) -> float:
    config = CONFIG if kernel is PIPELINED else NO_CONFIG
    return exp(pace_of(found, "float32", kernel, CUBLAS).log_us(config, problem)[0])


@pytest.mark.parametrize("shape", [(100, 100, 100), (3000, 500, 700), (8000, 8000, 8000)])
def test_what_waves_take_is_found_and_outliers_do_not_move_it(shape: tuple[int, int, int]) -> None:
    problem = Problem(*shape, "float32")
    assert expected_us(made(80), problem) == pytest.approx(us_of(problem), rel=0.05)
    assert expected_us(made(80, {3: 8.0, 40: 5.0}), problem) == pytest.approx(us_of(problem), rel=0.1)


def test_what_remains_at_a_row_is_kept() -> None:
    found = made(80, {3: 2.0})
    pace, entries = pace_of(found, "float32", PIPELINED, CUBLAS), found.entries
    errors = [
        pace.error_at(one, ranked) for one in entries for ranked in one.ranking if ranked.kernel == PIPELINED.name
    ]
    assert errors[3] > log(1.8) and max(abs(error) for error in errors[:3] + errors[4:]) < 0.1


def test_a_kernel_that_was_measured_at_few_shapes_goes_like_the_library() -> None:
    few, problem = made(MIN_ROWS - 1), Problem(2000, 2000, 2000, "float32")
    twice = replace(problem, k=2 * problem.k)
    as_library = [expected_us(few, each, CUBLAS) for each in (problem, twice)]
    assert [expected_us(few, each) for each in (problem, twice)] == as_library
    assert as_library[1] == pytest.approx(2 * as_library[0]), "and that by its operations"


def test_far_from_all_rows_it_is_less_sure() -> None:
    pace = pace_of(made(80), "float32", PIPELINED, CUBLAS)
    near, far = (pace.log_us(CONFIG, Problem(n, n, n, "float32"))[1] for n in (1000, 200_000))
    assert 0 < near < far


def test_a_partial_wave_costs_a_whole_one() -> None:
    block_m, block_n = CONFIG["block_m"], CONFIG["block_n"]
    one, more = (Problem(12 * block_m, columns * block_n, 4096, "float32") for columns in (11, 12))
    waves = [terms_of(PIPELINED, CONFIG, each, GPU.multiprocessors)[4] for each in (one, more)]
    assert waves[1] == 2 * waves[0]


def test_rows_that_are_not_whole_runs_are_copied_for_tma() -> None:
    """44 elements of two bytes lie at a pitch of 88, 64 at one of 128."""
    kernel = BY_NAME["hopper_fp16"]
    assert isinstance(kernel, CudaKernel)
    config = kernel.resolve_config(NO_CONFIG, Problem(512, 64, 64, "float16"), GPU)
    copied = {
        (n, k): terms_of(kernel, config, Problem(512, n, k, "float16"), GPU.multiprocessors)[9]
        for n, k in ((64, 64), (44, 64), (64, 44))
    }
    assert copied == {(64, 64): 0.0, (44, 64): 2.0, (64, 44): 1.0}


def test_all_terms_of_a_library_are_counted() -> None:
    assert len(terms_of(CUBLAS, NO_CONFIG, Problem(100, 100, 100, "float32"), 132)) == OF_LIBRARY
