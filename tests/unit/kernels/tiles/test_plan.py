"""Plans of tiles: every element of the product is in one tile, and every tile fits."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.selection.tuned import TABLES, TunedTable
from kernels.tiles import rates
from kernels.tiles.choice import with_epilogue
from kernels.tiles.estimate import Speeds, best_plan, estimate
from kernels.tiles.fitting import plans
from kernels.tiles.plan import SMALLEST, Span, TileBytes, TilePlan, rows_of_parts, slices, spans
from kernels.tiles.rates import measured_flops

H100 = Speeds(flops=52e12, copied_bytes=55e9, memory_bytes=2.5e12)
SIZES = st.integers(1, 700)


def tile_bytes(problem: Problem) -> TileBytes:
    itemsize = DTYPES[problem.dtype].itemsize
    a = problem.m * problem.k * (problem.batch if problem.a_batched else 1) * itemsize
    b = problem.n * problem.k * (problem.batch if problem.b_batched else 1) * itemsize
    return TileBytes(a, b, problem.product_bytes, beside=0)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    batch = draw(st.sampled_from((1, 1, 1, 2, 7)))
    a_batched, b_batched = draw(st.sampled_from(((True, True), (True, False), (False, True))))
    dtype: DTypeName = draw(st.sampled_from(("float32", "bfloat16", "int8", "float64")))
    batched = batch > 1 and a_batched, batch > 1 and b_batched
    return Problem(draw(SIZES), draw(SIZES), draw(st.integers(1, 300)), dtype, batch, False, False, *batched)


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(12, 24), st.integers(1, 3))
def test_each_element_is_in_one_tile_and_every_tile_fits(problem: Problem, bits: int, devices: int) -> None:
    for plan in list(plans(problem, device_bytes=1 << bits, tile_bytes=tile_bytes, devices=devices))[:6]:
        seen = np.zeros((problem.batch, problem.m, problem.n), np.uint8)
        for tile in plan.tiles():
            seen[tile.items.start : tile.items.stop, tile.rows.start : tile.rows.stop][
                :, :, tile.columns.start : tile.columns.stop
            ] += 1
            assert tile_bytes(tile.problem(problem)).needed <= 1 << bits
        assert (seen == 1).all()
        assert [tile.number for tile in plan.tiles()] == list(range(plan.count))


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 4))
def test_devices_share_the_outer_panels_in_order(problem: Problem, devices: int) -> None:
    plan = next(plans(problem, device_bytes=1 << 40, tile_bytes=tile_bytes, devices=devices))
    owners = [tile.device for tile in plan.tiles()]
    assert owners == sorted(owners) and set(owners) <= set(range(devices))
    counts = [len(plan.tiles_of(device)) for device in range(devices)]
    assert sum(counts) == plan.count
    inner = len(plan.columns if plan.outer == "a" else plan.rows)
    assert max(counts) - min(counts) <= inner


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 3))
def test_two_tiles_in_a_row_have_a_panel_in_common(problem: Problem, devices: int) -> None:
    """Inner panels turn back where the next outer one comes, so none of both is brought there."""
    plan = replace(
        next(plans(problem, device_bytes=1 << 40, tile_bytes=tile_bytes, devices=devices)),
        items=spans(problem.batch, problem.batch),
        rows=spans(problem.m, 5),
        columns=spans(problem.n, 4),
    )
    for device in range(devices):
        for one, other in pairwise(plan.tiles_of(device)):
            if one.items == other.items:
                assert (one.rows == other.rows) != (one.columns == other.columns)


@pytest.mark.parametrize(("k", "dtype", "rows"), [(90_000, "bfloat16", 512), (4096, "float32", 1), (48, "int8", 1024)])
def test_outer_panels_are_whole_parts_where_they_are_long(k: int, dtype: DTypeName, rows: int) -> None:
    problem = Problem(60_000, 60_000, k, dtype)
    assert rows_of_parts(problem, "a") == rows_of_parts(replace(problem, transpose_b=True), "b") == rows
    assert rows_of_parts(problem, "b") == 1, "columns"
    cut = spans(60_000, 2, rows)
    plan = TilePlan(problem, "a", 1, (Span(0, 1),), cut, spans(60_000, 3))
    assert cut[0].size % rows == 0 and plan.is_in_parts("a") and not plan.is_in_parts("b")
    assert replace(plan, columns=spans(60_000, 1)).is_in_parts("b"), "all of it"
    odd = replace(plan, rows=spans(60_000, 7001))
    assert odd.is_in_parts("a") == (rows == 1)


def test_what_lies_in_parts_is_not_read_again() -> None:
    problem = Problem(40_960, 40_960, 4096, "bfloat16")
    plan = TilePlan(problem, "a", 1, (Span(0, 1),), spans(40_960, 4), spans(40_960, 2))
    transposed = replace(plan, problem=replace(problem, transpose_a=True, transpose_b=True))
    told, other = (estimate(each, H100, tile_bytes).copy_s * H100.copied_bytes for each in (plan, transposed))
    once, product = 40_960 * 4096 * 2, problem.product_bytes
    assert told == pytest.approx(once + once + once + product), "A, B, B again for its digests, the product again"
    assert other == pytest.approx(once + once + once + product), "A again, and not B"


@given(st.integers(1, 30_000), st.booleans())
def test_a_first_tile_is_computed_slice_by_slice(rows: int, is_transposed: bool) -> None:
    problem = Problem(rows, 100, 100, "float32", transpose_a=is_transposed)
    plan = TilePlan(problem, "a", 1, (Span(0, 1),), (Span(0, rows),), (Span(0, 100),))
    cut = slices(plan, plan.largest)
    assert cut[0].start == 0 and cut[-1].stop == rows and all(one.stop == other.start for one, other in pairwise(cut))
    assert len(cut) == 1 if is_transposed or rows < 2048 else 1 < len(cut) <= 8
    assert all(span.start % 256 == 0 for span in cut)


def test_rates_are_those_that_were_measured() -> None:
    h100 = next(table.traits for table in TABLES if "H100" in table.device)
    emulated, plain = (measured_flops(name, "float32", h100) for name in ("fp32_emulated", "cublas"))
    assert emulated is not None and plain is not None and 3 * plain < emulated < 300e12
    assert (measured_flops("hopper_int8", "int8", h100) or 0) > 1e15, "of another one of its family"
    assert measured_flops("fp32_emulated", "float64", h100) is None
    assert measured_flops("cublas", "float32", replace(h100, name="", compute_capability=(1, 0))) is None


@given(st.integers(1, 10**6), st.integers(1, 50))
def test_spans_follow_on_each_other(size: int, parts: int) -> None:
    cut = spans(size, parts)
    assert cut[0].start == 0 and cut[-1].stop == size and len(cut) <= parts
    assert all(before.stop == after.start for before, after in pairwise(cut))
    assert {span.size for span in cut[:-1]} <= {cut[0].size} and cut[-1].size <= cut[0].size


def test_nothing_fits_where_k_is_too_deep() -> None:
    deep = Problem(100, 100, 1 << 20, "float32")
    assert best_plan(deep, H100, device_bytes=1 << 20, tile_bytes=tile_bytes) is None
    assert best_plan(deep, H100, device_bytes=2 * 4 * (SMALLEST * 4) << 20, tile_bytes=tile_bytes) is not None


def test_a_large_product_is_bound_by_its_kernel_and_no_device_idles() -> None:
    problem = Problem(90_000, 90_000, 90_000, "float32")
    plan = best_plan(problem, H100, device_bytes=70 << 30, tile_bytes=tile_bytes)
    assert plan is not None
    told = estimate(plan, H100, tile_bytes)
    assert told.copy_s < told.compute_s and problem.flops / H100.flops >= 0.96 * told.total_s
    two = best_plan(problem, H100, device_bytes=70 << 30, tile_bytes=tile_bytes, devices=2)
    assert two is not None and len(two.tiles_of(0)) == len(two.tiles_of(1))
    assert told.total_s / estimate(two, H100, tile_bytes).total_s > 1.9


def test_alpha_beta_and_c_take_room_and_time() -> None:
    """A tile of C comes with each tile, A·B has a place besides, and C is read once more."""
    problem, of_tile = Problem(60_000, 60_000, 60_000, "bfloat16"), with_epilogue(tile_bytes)
    plan = best_plan(problem, H100, device_bytes=12 << 30, tile_bytes=of_tile)
    assert plan is not None
    largest = plan.largest.problem(problem)
    assert of_tile(largest).needed == tile_bytes(largest).needed + 3 * largest.product_bytes <= 12 << 30
    told, without = estimate(plan, H100, of_tile), estimate(plan, H100, tile_bytes)
    assert (told.copy_s - without.copy_s) * H100.copied_bytes == pytest.approx(2 * problem.product_bytes, rel=0.05)


def test_a_tile_of_a_batch_is_of_whole_matrices_where_these_fit() -> None:
    problem = Problem.in_batch(64, 64, 64, "float32", batch=1000)
    plan = best_plan(problem, H100, device_bytes=1 << 20, tile_bytes=tile_bytes)
    assert plan is not None and plan.rows == (Span(0, 64),) and plan.columns == (Span(0, 64),)
    tile = plan.largest
    assert tile.problem(problem).batch == tile.items.size > 1
    assert tile.panel("a", problem) == (tile.items, Span(0, 64))


def test_an_operand_that_serves_the_whole_batch_is_one_panel() -> None:
    problem = Problem(64, 64, 64, "float32", batch=10, a_batched=True)
    plan = TilePlan(problem, "a", 1, spans(10, 10), (Span(0, 64),), (Span(0, 64),))
    last = list(plan.tiles())[-1]
    assert last.panel("a", problem)[0] == Span(9, 10) and last.panel("b", problem)[0] == Span(0, 1)


@pytest.mark.parametrize("n", [1, 63, 10_000])
def test_a_thin_product_is_cut_where_it_is_long(n: int) -> None:
    problem = Problem(200_000, n, 5000, "float32")
    plan = best_plan(problem, H100, device_bytes=1 << 30, tile_bytes=tile_bytes, devices=2)
    assert plan is not None and len(plan.rows) > 1


def test_tables_are_read_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes longer than a small product, and each that is stored asks."""
    reads: list[DeviceTraits] = []

    def tables_for(device: DeviceTraits) -> list[TunedTable]:
        reads.append(device)
        return []

    monkeypatch.setattr(rates, "tables_for", tables_for)
    device = DeviceTraits("gpu", (9, 9), name="A GPU that only this test knows")
    assert [measured_flops("cublas", "float32", device) for _ in range(3)] == [None] * 3
    assert reads == [device]
