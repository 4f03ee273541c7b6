"""Coefficients of a kernel's time, fitted to rows of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import exp, log

import pytest

from benchmarks.measure.auto_sample import draw
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import Problem
from kernels.selection.cost_model.library import OF_LIBRARY, library_terms
from kernels.selection.cost_model.model import MIN_ROWS, cost_model_of
from kernels.selection.cost_model.terms import WAVES, terms_of
from kernels.selection.tuned import Entry, Trial, TunedTable
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
    return exp(cost_model_of(found, "float32", kernel, CUBLAS).log_us(config, problem)[0])


@pytest.mark.parametrize("shape", [(100, 100, 100), (3000, 500, 700), (8000, 8000, 8000)])
def test_what_waves_take_is_found_and_outliers_do_not_move_it(shape: tuple[int, int, int]) -> None:
    problem = Problem(*shape, "float32")
    assert expected_us(made(80), problem) == pytest.approx(us_of(problem), rel=0.05)
    assert expected_us(made(80, {3: 8.0, 40: 5.0}), problem) == pytest.approx(us_of(problem), rel=0.1)


def test_what_remains_at_a_row_is_kept() -> None:
    found = made(80, {3: 2.0})
    model, entries = cost_model_of(found, "float32", PIPELINED, CUBLAS), found.entries
    errors = [model.errors[at] for one in entries for at in one.ranked if at.row.kernel == PIPELINED.name]
    assert errors[3] > log(1.8) and max(abs(error) for error in errors[:3] + errors[4:]) < 0.1


def test_a_kernel_that_was_measured_at_few_shapes_goes_like_the_library() -> None:
    few, problem = made(MIN_ROWS - 1), Problem(2000, 2000, 2000, "float32")
    twice = replace(problem, k=2 * problem.k)
    as_library = [expected_us(few, each, CUBLAS) for each in (problem, twice)]
    assert [expected_us(few, each) for each in (problem, twice)] == as_library
    assert as_library[1] == pytest.approx(2 * as_library[0]), "and that by its operations"


def test_far_from_all_rows_it_is_less_sure() -> None:
    model = cost_model_of(made(80), "float32", PIPELINED, CUBLAS)
    near, far = (model.log_us(CONFIG, Problem(n, n, n, "float32"))[1] for n in (1000, 200_000))
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


CLUSTERS = BY_NAME["cluster_split_k"]
CLOCKS, LATE = 3, 15  # places of a kernel's own estimate, and of what clusters add to it


def of_eight() -> dict[str, int]:
    """A config with clusters of eight, of which one block fills a multiprocessor."""
    assert isinstance(CLUSTERS, CudaKernel)
    wide = (each.config for each in CLUSTERS.defaults if each.config["cluster"] == 8 and each.config["block_m"] == 128)
    return dict(CLUSTERS.resolve_config(next(wide), Problem(128, 16, 64, "float32"), GPU))


@pytest.mark.parametrize(("clusters", "late"), [(15, 0.0), (16, 1.0), (30, 0.0), (31, 0.5)])
def test_fewer_clusters_run_at_once_than_multiprocessors_have_room_for(clusters: int, late: float) -> None:
    """132 have room for 16 clusters of eight, and 15 run."""
    problem = Problem(128 * clusters, 16, 4096, "float32")
    found = terms_of(CLUSTERS, of_eight(), problem, GPU.multiprocessors)
    assert found[LATE] == pytest.approx(late * found[CLOCKS])


def test_a_config_with_another_second_wave_than_others_is_found() -> None:
    """Small tiles whose second block on a multiprocessor waits for the first, against the kernel's own estimate, by
    which most products in large tiles go."""
    kernel, entries = BY_NAME["tensor_fp64"], list[Entry]()
    assert isinstance(kernel, CudaKernel)
    sides: tuple[int, ...] = 64, 128
    configs = {
        side: dict(kernel.resolve_config(each.config, Problem(512, 512, 512, "float64"), GPU))
        for each in kernel.defaults
        for side in sides
        if each.config["block_m"] == each.config["block_n"] == side and not each.config["resident"]
    }

    def us_in(problem: Problem, side: int) -> float:
        found = terms_of(kernel, configs[side], problem, GPU.multiprocessors)
        return BASE_US + (WAVE_US * found[WAVES] if side == 64 else found[CLOCKS])

    few_tiles = [(64 * (1 + number % 100), 64, 500 + 60 * number) for number in range(100)]
    more_tiles = [(64 * (140 + 5 * number), 64, 1000 + 500 * number) for number in range(18)]
    shapes = [*((one, 64) for one in few_tiles + more_tiles), *((one, 128) for one in draw(200, 5, 8192))]
    for (m, n, k), side in shapes:
        problem = Problem(m, n, k, "float64")
        lines = row(kernel.name, problem.flops / us_in(problem, side) * 1e-3, configs[side]), row("cublas", 1.0)
        entries.append(replace(entry(m, dtype="float64", accuracy="fp64", rows=lines), n=n, k=k))
    model = cost_model_of(table(entries=entries), "float64", kernel, CUBLAS)
    late = Problem(64 * 150, 64, 2345, "float64")
    assert exp(model.log_us(configs[64], late)[0]) == pytest.approx(us_in(late, 64), rel=0.1)


def with_both_lines(tuned_over_default: float) -> TunedTable:
    """The library's default choice at 10 TFLOPS, and its tuned entry."""
    entries: list[Entry] = []
    for m, n, k in draw(40, 7, 8192):
        lines = row("cublas", 1e4), row("cublas_tuned", 1e4 * tuned_over_default)
        entries.append(replace(entry(m, rows=sorted(lines, key=lambda one: -one.gflops)), n=n, k=k))
    return table(entries=entries)


@pytest.mark.parametrize(("recorded", "counts"), [(0.7, 1.0), (1.25, 1.25)])
def test_the_tuned_entry_counts_as_no_slower_than_the_default_choice(recorded: float, counts: float) -> None:
    """It tries that too; a trial that was misled is not what it takes elsewhere."""
    found, problem = with_both_lines(recorded), Problem(2000, 2000, 2000, "float32")
    tuned, default = (expected_us(found, problem, BY_NAME[name]) for name in ("cublas_tuned", "cublas"))
    assert default / tuned == pytest.approx(counts, rel=0.02)


def test_three_shapes_are_enough_for_a_kernel_that_multiplies_another_type() -> None:
    """The library's time says nothing of its own."""
    kernel = BY_NAME["fp64_emulated"]
    config, entries = dict(kernel.resolve_config(NO_CONFIG, Problem(4096, 4096, 4096, "float64"), GPU)), list[Entry]()
    for n in (4096, 8192, 16384):
        lines = row(kernel.name, 8e4, config), row("cublas", 5e4 if n < 9000 else 2e4)
        entries.append(entry(n, dtype="float64", accuracy="fp64", rows=lines))
    made_of = table(entries=[replace(one, trials=tuple(as_trial(one))) for one in entries])
    model = cost_model_of(made_of, "float64", kernel, CUBLAS)
    assert model.kernel is kernel
    twice = [model.log_us(config, Problem(8192, 8192, k, "float64"))[0] for k in (8192, 16384)]
    assert twice[1] - twice[0] == pytest.approx(log(2), abs=0.15)


def as_trial(one: Entry) -> Iterator[Trial]:
    for each in one.ranking:
        if BY_NAME[each.kernel].emulated_with is not None:
            yield Trial(
                kernel=each.kernel,
                config=each.config,
                gflops=each.gflops,
                fraction_of_baseline=None,
                error_of_baseline=0.5,
            )


def test_each_pace_is_fitted_once_whatever_it_is_held_against() -> None:
    found = made(80)
    assert cost_model_of(found, "float32", PIPELINED, CUBLAS) is cost_model_of(found, "float32", PIPELINED, None)


def test_a_library_may_cut_k_where_tiles_are_few() -> None:
    """So a deep product of one tile does not take as many times as long as it is deep."""
    flat, deep = (library_terms(Problem(128, 128, k, "float32"), 132)[-4] for k in (512, 16384))
    assert deep < 8 * flat
    whole, wave_more = (library_terms(Problem(256 * count, 128 * 12, 64, "float32"), 132)[-4] for count in (11, 12))
    assert whole < wave_more, "and a wave that is not full costs something"
