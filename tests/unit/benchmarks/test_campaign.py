"""`make prove`: its faults and its truth, and a short run of it on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from jobs.formats.elements import Array
from kernels.model.accuracy import element_bound
from kernels.model.numerics import ACCURACY_NAMES, DTYPE_NAMES, Problem
from tests.campaign import __main__ as campaign
from tests.campaign.backends import CpuBackend, MadeOnCpu, Way
from tests.campaign.data import CLEAN_FLOATS, FAULTY_FLOATS, INTEGERS, OVERFLOW, operands
from tests.campaign.faults import FAULTS
from tests.campaign.run import Share, check_clean, inject
from tests.campaign.scenes import DEEPEST, MAX_TERMS, clean, faulty, scene
from tests.campaign.tally import Result, Tally, total
from tests.campaign.truth import truth_of
from worker.check import verify
from worker.cpu.blas import multiply

BACKEND = CpuBackend()
SHARE = Share("cpu", seed=5, first=0, processes=1, faults=3, clean=300, seconds=600.0)


def empty() -> Result:
    return Result({name: Tally() for name in FAULTS})


class Blind(MadeOnCpu):
    """A check that accepts everything."""

    def passes(self, c: Array, rng: np.random.Generator) -> bool:
        return True


class Strict(MadeOnCpu):
    """A check that rejects every differing bit."""

    def passes(self, c: Array, rng: np.random.Generator) -> bool:
        return c.tobytes() == self.c.tobytes()

    def passes_late(self, c: Array, rng: np.random.Generator) -> bool:
        return self.passes(c, rng)


@pytest.mark.parametrize(("check", "caught"), [(Blind, 0.0), (Strict, 1.0)])
def test_what_is_caught_is_counted(monkeypatch: pytest.MonkeyPatch, check: type[MadeOnCpu], caught: float) -> None:
    monkeypatch.setattr("tests.campaign.backends.MadeOnCpu", check)
    result = empty()
    inject(BACKEND, SHARE, result, np.inf)
    assert not result.outside and result.passed is (caught == 1.0)
    for name, one in result.faults.items():
        by_check = caught if FAULTS[name].stage == "product" else 1.0  # digests find the others
        assert one.injected == SHARE.faults and one.caught == by_check * one.above, name
        assert by_check or not one.above or one.worst_missed > 1.0
    assert sum(one.above for one in result.faults.values()) > 0.9 * SHARE.faults * len(FAULTS)


def test_the_check_finds_all_faults_and_lets_clean_products_pass() -> None:
    result = empty()
    inject(BACKEND, SHARE, result, np.inf)
    check_clean(BACKEND, SHARE, result, np.inf)
    assert result.clean.total() == SHARE.clean
    assert not result.refused
    assert result.passed and result.faults["a row zeroed"].caught > 0


def test_numbers_give_the_same_products_whatever_came_before() -> None:
    one, again = scene(BACKEND, 3, 11), scene(BACKEND, 3, 11)
    assert str(one) == str(again) and one.c.tobytes() == again.c.tobytes() != one.other.tobytes()
    assert one.truth.excess(one.c) <= 1.0


def test_every_type_class_and_data_has_its_share() -> None:
    plans = [faulty(BACKEND.ways, 1, number) for number in range(4000)]
    assert {plan.way.dtype for plan in plans} == set(DTYPE_NAMES)
    assert {plan.way.accuracy for plan in plans} == set(ACCURACY_NAMES)
    assert all(plan.problem.m * plan.problem.n * plan.problem.k <= MAX_TERMS for plan in plans)
    assert max(plan.problem.k for plan in plans) > DEEPEST / 2 and min(plan.problem.k for plan in plans) == 1
    assert min(sum(plan.problem.batch > 1 for plan in plans), sum(plan.data == OVERFLOW for plan in plans)) > 100
    assert {plan.data for plan in plans} >= {*FAULTY_FLOATS, *INTEGERS}
    assert {plan.data for plan in (clean(BACKEND.ways, 1, number) for number in range(4000))} >= set(CLEAN_FLOATS)


@pytest.mark.parametrize("way", BACKEND.ways[::4], ids=str)
@pytest.mark.parametrize("data", CLEAN_FLOATS)
def test_right_products_are_within_their_bounds_and_wrong_ones_are_not(way: Way, data: str) -> None:
    problem, rng = Problem(9, 11, 40, way.dtype), np.random.default_rng(2)
    if way.accuracy == "exact":
        data = "whole range"
    a, b = operands(problem, data, rng, way.accuracy)
    made = BACKEND.made(way, problem, a, b)
    truth = truth_of(problem, way.accuracy, a, b)
    assert truth.excess(made.c) <= 1.0
    if data in ("normal", "whole range", OVERFLOW):
        wrong = made.c.copy()
        wrong[0, 4] = 0
        assert truth.excess(wrong) > 1.0


def test_an_elements_bound_is_that_of_its_own_row_and_column() -> None:
    problem, rng = Problem(4, 5, 100, "float32"), np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((4, 100), (100, 5)))
    b[:, 0] *= 1e8
    truth = truth_of(problem, "fp32", a, b)
    sizes = abs(a.astype(float)) @ abs(b.astype(float))
    granted = 4 * 10 * 2.0**-24 * sizes
    ratios = truth.bound[0] / (granted + 2.0**-24 * abs(a.astype(float) @ b))
    assert ratios.min() == pytest.approx(1.0, rel=1e-5) == np.median(ratios)  # partial sums of a few grow further
    assert truth.bound[0, 0, 0] > 1e6 * truth.bound[0, 0, 1]


def test_a_small_float64_row_is_not_told_apart_from_less_than_its_noise() -> None:
    """Squares of its elements are below the smallest number of their type."""
    problem, rng = Problem(6, 9, 300, "float64"), np.random.default_rng(3)
    a, b = rng.standard_normal((6, 300)), rng.standard_normal((300, 9))
    with mock.patch.object(verify, "MAX_DIRECT", 0):
        whole = truth_of(problem, "fp64", a, b)
        small = truth_of(problem, "fp64", np.ldexp(a, -560), np.ldexp(b, -300))
    assert (np.ldexp(small.told_from, 860) / whole.told_from).astype(float) == pytest.approx(1.0)
    assert (whole.told_from > 0.0).all()


def test_constants_are_granted_what_their_partial_sums_explain() -> None:
    k = 10_000
    ones = np.full((1, k), 0.1, np.float32), np.full((k, 1), 1.0, np.float32)
    truth = truth_of(Problem(1, 1, k, "float32"), "fp32", *ones)
    assert truth.bound[0, 0, 0] == pytest.approx(2.0**-24 * 0.1 * k * (k + 1), rel=1e-3)
    assert element_bound("fp32", "float32", k).sum == 4 * 100 * 2.0**-24


def test_integers_are_exact_modulo_the_word() -> None:
    problem = Problem(3, 4, 50, "int32")
    a, b = operands(problem, "whole range", np.random.default_rng(1), "exact")
    c = multiply(problem, a, b)[np.newaxis]
    truth = truth_of(problem, "exact", a, b)
    assert truth.excess(c) == 0.0
    c[0, 0, 0] ^= np.int32(-(2**31))
    assert truth.excess(c) == np.inf


def test_a_short_campaign_is_recorded_and_processes_share_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "prove_cpu.json"
    asked = ["--seed", "5", "--faults", "4", "--clean", "60", "--processes", "2", "--out", str(out)]
    status = campaign.main(asked)
    record = json.loads(out.read_text())
    assert set(record["faults"]) == set(FAULTS) and record["clean"]["products"] == 60
    assert all(one["injected"] == 4 for one in record["faults"].values())
    missed = any(one["missed"] > 0 for one in record["faults"].values())
    assert status == int(missed or record["clean"]["refused"] > 0)
    assert "60 clean products" in capsys.readouterr().out and record["environment"]["recorded_at"]


def test_totals_add_up_and_a_single_refusal_fails() -> None:
    one, other = empty(), empty()
    one.faults["one element"].count(2.0, False, "fp32", "a")
    other.faults["one element"].count(3.0, False, "fp32", "b")
    other.faults["one element"].count(0.5, True, "fp32", "c")
    assert total([one, other]).passed and one.faults["one element"].above == 2
    other.faults["one element"].count(np.inf, True, "tf32", "d")
    found = total([empty(), other])
    tally = found.as_record()["faults"]["one element"]
    assert not found.passed and tally["worst_missed"] == "inf" and tally["missed_by_class"] == {"tf32": 1}
    refused = empty()
    refused.refused.append("this")
    assert not refused.passed


def test_a_kernel_of_integers_alone_has_no_products_that_overflow() -> None:
    exact = [way for way in BACKEND.ways if way.accuracy == "exact"]
    plans = [faulty(exact, seed=1, number=number) for number in range(50)]
    assert {plan.data for plan in plans} == set(INTEGERS)
