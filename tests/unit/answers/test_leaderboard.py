"""Kernels ranked by recorded runs: equal rank where samples do not tell, the library among them, nothing disturbed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from analysis.comparison.by_size import by_size
from analysis.comparison.leaderboard import Board, RankedRun, boards
from analysis.comparison.shares import shared_products
from analysis.condition import of_kind
from analysis.measurement import Measurement
from kernels.published import PUBLISHED
from service.benchmarks.leaderboard import LeaderboardQuery, every_board, headlines, selected
from tests.unit.answers.test_answer import at

WIDE = 0.01  # of the median, on either side


def noisy(kernel: str, gflops: float, n: int = 1024, spread: float = WIDE) -> Measurement:
    one = at(kernel, gflops, n)
    assert one.kernel_ms is not None
    return replace(one, fastest_ms=one.kernel_ms * (1 - spread), q3_ms=one.kernel_ms * (1 + spread))


def board(*found: Measurement) -> Board:
    (only,) = boards([RankedRun("a_run", found)])
    return only


def ranks(found: Board) -> list[tuple[int, str]]:
    return [(row.rank, row.kernel) for row in found.rows]


def test_kernels_whose_samples_overlap_share_a_rank() -> None:
    found = board(noisy("naive", 90.0), noisy("cublas", 100.0), noisy("warp_tiled", 99.0), noisy("shared_tiled", 89.5))
    assert ranks(found) == [(1, "cublas"), (1, "warp_tiled"), (3, "naive"), (3, "shared_tiled")]
    assert (found.best.kernel, found.library and found.library.kernel) == ("warp_tiled", "cublas")


def test_shares_are_of_the_library_with_their_interval() -> None:
    found = board(noisy("cublas", 100.0), noisy("naive", 50.0))
    share = found.rows[1].fraction_of_library
    assert share is not None
    assert (share.value, share.lo, share.hi) == pytest.approx((0.5, 0.5 * 0.99 / 1.01, 0.5 * 1.01 / 0.99))


def test_a_kernel_stands_with_its_fastest_config() -> None:
    slow, fast = (replace(noisy("naive", speed), config={"block_m": size}) for speed, size in ((10.0, 8), (20.0, 32)))
    (row, _) = board(slow, fast, noisy("shared_tiled", 5.0)).rows
    assert (row.config, row.gflops, row.published) == ({"block_m": 32}, 20.0, "a_run")


@pytest.mark.parametrize(
    ("n", "besides", "may_be"),
    [
        (1000, {}, True),
        (1000, {"cublas_tuned": 100.1}, True),
        (1000, {"cublas_tuned": 500.0}, False),
        (1024, {}, False),
    ],
)
def test_a_library_that_took_only_unpadded_operands_may_be_faster(
    n: int, besides: Mapping[str, float], may_be: bool
) -> None:
    found = board(noisy("naive", 90.0, n), noisy("cublas", 100.0, n), *(noisy(*each, n) for each in besides.items()))
    assert found.library_may_be_faster is may_be


def test_a_library_with_a_padded_row_is_at_its_best() -> None:
    runs = [RankedRun("a_run", [noisy("naive", 90.0, 1000), noisy("cublas", 100.0, 1000), noisy("cublas", 700.0)])]
    (found,) = boards(runs)
    assert any(row.padded_to for row in found.rows) and not found.library_may_be_faster


def disturbed(one: Measurement) -> Measurement:
    return replace(one, condition=of_kind("contended"))


def unknown_noise(one: Measurement) -> Measurement:
    return replace(one, fastest_ms=None, q3_ms=None)


@pytest.mark.parametrize("spoil", [disturbed, unknown_noise])
def test_what_carries_no_conclusion_is_left_out(spoil: Callable[[Measurement], Measurement]) -> None:
    found = board(spoil(noisy("naive", 1000.0)), noisy("shared_tiled", 20.0), noisy("cublas", 100.0))
    assert ranks(found) == [(1, "cublas"), (2, "shared_tiled")]


@pytest.mark.parametrize("found", [[noisy("naive", 1.0)], [noisy("cublas", 1.0), noisy("cublas_tf32", 2.0)]])
def test_one_kernel_alone_makes_no_board(found: Sequence[Measurement]) -> None:
    assert boards([RankedRun("a_run", found)]) == ()


def test_the_library_on_padded_operands_is_a_line_of_its_own() -> None:
    """At 1025 by what it does at 1088, for the operations of 1025."""
    found = boards(
        [RankedRun("a_run", [noisy("naive", 20.0, 1025), noisy("cublas", 30.0, 1025), noisy("cublas", 100.0, 1088)])]
    )
    (odd,) = found
    first = odd.rows[0]
    assert (first.kernel, first.padded_to, odd.library) == ("cublas", 1088, first)
    assert first.gflops == pytest.approx(100.0 * (1025 / 1088) ** 3)
    assert [row.padded_to for row in odd.rows] == [1088, None, None]


# ---- what ships ----
def test_the_recorded_boards_rank_what_was_published() -> None:
    assert {one.device for one in every_board()} == {"NVIDIA H100 80GB HBM3", "NVIDIA H200"}
    for one in every_board():
        for row in one.rows:
            size = row.padded_to or one.n
            records = PUBLISHED[row.published].records
            assert any((each.kernel, each.dtype, each.n) == (row.kernel, one.dtype, size) for each in records)
        assert [row.gflops for row in one.rows] == sorted((row.gflops for row in one.rows), reverse=True)
    assert {one.dtype: one.best.kernel for one in headlines()}["bfloat16"] == "hopper_bf16"


def test_boards_are_chosen_by_what_is_asked() -> None:
    of_size = selected(LeaderboardQuery(dtype="bfloat16", size="4096", device=None, accuracy=None))
    assert {(each.n, each.accuracy) for each in of_size} == {(4096, "bf16")}
    assert len({each.device for each in of_size}) == len(of_size) == 2
    oblong = selected(LeaderboardQuery(size="16x8192x8192", device=None, dtype=None, accuracy=None))
    assert oblong and all((each.m, each.n, each.k) == (16, 8192, 8192) for each in oblong)
    assert not selected(LeaderboardQuery(device="none", dtype=None, accuracy=None, size=None))


# ---- shares and sizes ----
def test_products_without_a_library_have_no_shares() -> None:
    (product,) = shared_products([at("naive", 5.0), at("cublas", 10.0), at("naive", 5.0, 2048)])
    assert (product.size, [one.value for one in product.shares]) == ("1024", [1.0, 0.5])


def test_runs_without_a_common_kernel_are_held_against_each_other_by_size() -> None:
    (same,) = by_size([at("naive", 5.0), at("cublas", 99.0), at("naive", 1.0, 64)], [at("warp_tiled", 10.0)])
    assert (same.before.kernel, same.after.kernel, same.ratio, same.why_not) == ("naive", "warp_tiled", 2.0, "")
    (spoilt,) = by_size([at("naive", 5.0)], [at("warp_tiled", 10.0, condition="throttled")])
    assert spoilt.ratio is None and "held the clock down" in spoilt.why_not
