"""From findings to results: rounds pooled, ratios paired, roofs, what is missing; the documents made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.publication import publish
from analysis.results import CaseResult, Results, collect, from_json, measurements, to_json
from analysis.sources import from_publication
from jobs.benchmarks.records import BenchmarkSummary, CaseRecord, Ceiling, Checked
from jobs.benchmarks.statistics import ci95, summarize
from jobs.models import Progress
from jobs.states import JobState
from kernels.published import read
from tests.unit.analysis.findings import DOCUMENT, SPREAD, attempt, case_of, job, kept, record, spec, two_rounds

ROW = next(row for row in DOCUMENT["records"] if (row["kernel"], row["n"]) == ("pipelined", 2048))
NAIVE = next(row for row in DOCUMENT["records"] if (row["kernel"], row["n"]) == ("naive", 2048))
CUBLAS = next(row for row in DOCUMENT["records"] if (row["kernel"], row["n"]) == ("cublas", 2048))


def results_of(*records: CaseRecord, ceilings: tuple[Ceiling, ...] = ()) -> Results:
    return collect(job(spec(timing={"rounds": 3})), kept(records, ceilings=ceilings))


def only(results: Results, kernel: str) -> CaseResult:
    (found,) = (one for one in results.cases if one.kernel == kernel)
    return found


def test_samples_of_all_rounds_are_taken_together() -> None:
    found = only(results_of(record(ROW, 0), record(ROW, 1, slower=1.1)), "pipelined")
    together = [ROW["kernel_ms"] * 1e3 * slower * factor for slower in (1, 1.1) for factor in SPREAD]
    times = summarize(together)
    assert found.time_us is not None and found.time_us.model_dump() == pytest.approx(times.model_dump())
    assert found.kernel_ms == pytest.approx(times.median / 1e3)
    assert found.samples == 2 * len(SPREAD)
    assert found.gflops == pytest.approx(found.flops / (times.median * 1e3))
    assert (found.gflops_lo, found.gflops_hi) == pytest.approx(
        (found.flops / (times.q3 * 1e3), found.flops / (times.q1 * 1e3))
    )
    assert [one.kernel_ms for one in found.rounds] == pytest.approx([ROW["kernel_ms"], ROW["kernel_ms"] * 1.1])
    assert found.state.sm_clock_mhz == pytest.approx((1900 + 1920) / 2)


def test_the_interval_encloses_what_differs_from_round_to_round() -> None:
    """Three rounds, each of which is known to half a percent, and which differ by four percent."""
    steps = (1.0, 1.02, 1.04)
    found = only(results_of(*(record(ROW, number, slower=slower) for number, slower in enumerate(steps))), "pipelined")
    assert found.ci95_lo_us is not None and found.ci95_lo_us <= ROW["kernel_ms"] * 1e3 * 1.000001
    assert found.ci95_hi_us is not None and found.ci95_hi_us >= ROW["kernel_ms"] * 1e3 * 1.04 * 0.999999


def test_the_ratio_to_the_baseline_is_paired_by_round() -> None:
    """A clock that falls by half in one round is no difference between two kernels of that round."""
    own = [record(ROW, number, slower=slower) for number, slower in enumerate((1.0, 2.0, 1.2))]
    baseline = [record(CUBLAS, number, slower=slower) for number, slower in enumerate((1.0, 2.0, 1.0))]
    found = only(results_of(*own, *baseline), "pipelined").fraction_of_baseline
    expected = CUBLAS["kernel_ms"] / ROW["kernel_ms"]
    assert found is not None and found.value == pytest.approx(expected)
    assert found.lo == pytest.approx(expected / 1.2 * 0.998 / 1.002)
    assert found.hi == pytest.approx(expected * 1.002 / 0.998)
    assert only(results_of(*own, *baseline), "cublas").fraction_of_baseline is not None
    assert only(results_of(*own), "pipelined").fraction_of_baseline is None


def test_a_ratio_of_few_samples_is_no_exact_one() -> None:
    """Fewer than six have no 95 % interval of their median: what they span stands for it."""

    def few(row: Mapping[str, Any]) -> CaseRecord:
        times = summarize([row["kernel_ms"] * 1e3 * factor for factor in (0.98, 0.99, 1.0, 1.01, 1.02)])
        return record(row, 0, ci95_lo_us=None, ci95_hi_us=None, samples=5, time_us=times)

    found = only(results_of(few(ROW), few(CUBLAS)), "pipelined").fraction_of_baseline
    expected = CUBLAS["kernel_ms"] / ROW["kernel_ms"]
    assert found is not None and found.value == pytest.approx(expected)
    assert (found.lo, found.hi) == pytest.approx((expected * 0.98 / 1.02, expected * 1.02 / 0.98))


def test_a_wrong_product_in_one_round_leaves_no_figures() -> None:
    wrong: dict[str, Any] = {
        "status": "incorrect",
        "reason": "The product is wrong.",
        "kernel_ms": None,
        "gflops": None,
        "samples": 0,
    }
    check = Checked(mode="freivalds", passed=False, residual=1e-9, threshold=0.0)
    found = only(results_of(record(ROW, 0, contended=True), record(ROW, 1, **wrong, before=check)), "pipelined")
    assert (found.status, found.reason) == ("incorrect", "The product is wrong.")
    assert (found.kernel_ms, found.gflops, found.time_us, found.fraction_of_baseline) == (None, None, None, None)
    assert found.before == check and found.contended
    assert [one.status for one in found.rounds] == ["ok", "incorrect"]


def test_without_samples_the_fullest_round_stands_for_the_case() -> None:
    findings = kept([record(ROW, 0), record(ROW, 1, slower=2.0, samples=99)])
    found = only(
        collect(job(), {name: text for name, text in findings.items() if not name.startswith("samples")}), "pipelined"
    )
    assert found.kernel_ms == pytest.approx(2 * ROW["kernel_ms"]) and found.samples == 99
    lo_us, hi_us = ROW["kernel_ms"] * 1e3, 2 * ROW["kernel_ms"] * 1e3 * 1.002
    assert (found.ci95_lo_us, found.ci95_hi_us) == pytest.approx((lo_us, hi_us)), "every round's median is within"


def test_what_follows_from_other_cases_and_the_device() -> None:
    found = only(results_of(record(ROW), record(NAIVE)), "pipelined")
    assert found.speedup_vs_naive == pytest.approx(NAIVE["kernel_ms"] / ROW["kernel_ms"])
    peak = DOCUMENT["device"]["theoretical"]["gflops"]["float32"]
    assert (found.roof_gflops, found.roof_kind) == (peak, "theoretical")
    assert found.fraction_of_roof == pytest.approx((found.gflops or 0) / peak)
    assert found.ai_min == pytest.approx(2048 / 6)
    assert found.gflops_per_ghz == pytest.approx((found.gflops or 0) / 1.9)
    assert found.gflops_per_w is None
    watts = only(results_of(record(ROW, energy_mj=500 * ROW["kernel_ms"])), "pipelined")
    assert watts.gflops_per_w == pytest.approx((found.gflops or 0) / 500)


def test_measured_roofs_go_before_theoretical_ones() -> None:
    ceilings = (
        Ceiling(name="dram_copy", unit="GB/s", value=4000.0),
        Ceiling(name="l2_copy", unit="GB/s", value=9000.0),
        Ceiling(name="fma_float32", unit="GFLOPS", value=60000.0, dtype="float32"),
        Ceiling(name="tensor_tf32", unit="GFLOPS", value=400000.0, dtype="float32"),
    )
    results = results_of(record(ROW), ceilings=ceilings)
    found = only(results, "pipelined")
    assert (found.roof_gflops, found.roof_kind) == (60000, "measured")
    assert measurements(results)[0].device.measured.memory_gb_s == 4000


def test_a_search_is_judged_by_the_timing_after_it() -> None:
    heat = record(ROW, 3, slower=3.0)  # of a spec with three rounds
    found = results_of(record(ROW, 0), heat, record(NAIVE, 3, slower=3.0), record(NAIVE, 4, slower=2.0))
    assert only(found, "pipelined").kernel_ms == pytest.approx(ROW["kernel_ms"])
    assert only(found, "naive").kernel_ms == pytest.approx(2 * NAIVE["kernel_ms"])  # chose no further: its last heat


def test_cases_stand_in_the_order_of_the_spec() -> None:
    found = collect(job(), kept(reversed(two_rounds())))
    assert [one.case for one in found.cases[:2]] == [case_of(row).id for row in DOCUMENT["records"][:2]]
    assert [one.n for one in found.cases] == sorted(one.n for one in found.cases)


def test_what_is_missing_is_said() -> None:
    assert collect(job(), kept(two_rounds())).complete
    lost = collect(job(), kept(two_rounds()[1:-1][:10]))
    assert not lost.complete and lost.warnings == ("Of 36 cases 10 are still kept.",)
    running = job(state=JobState.CANCELLED, progress=Progress(done=3, total=72), benchmark=None, finished_at=None)
    cancelled = collect(running, kept([record(ROW)], attempts=2))
    assert not cancelled.complete and len(cancelled.attempts) == 2
    assert cancelled.warnings[0].startswith("The job is cancelled, after 3 of 72 steps.")
    summary = BenchmarkSummary(cases=36, measurements=72, warnings=("It took 2 attempts.",))
    assert collect(job(benchmark=summary), kept(two_rounds())).warnings == ("It took 2 attempts.",)
    nothing = collect(job(state=JobState.QUEUED, benchmark=None), {})
    assert (nothing.cases, nothing.device, nothing.complete) == ((), {}, False)


def test_the_json_document_is_read_again() -> None:
    results = collect(job(spec(shapes=[{"start": 256, "stop": 512, "step": 256}, 2048])), kept(two_rounds()))
    text = to_json(results)
    assert from_json(text) == results
    assert len(json.loads(text)["records"]) == 36


def test_measurements_know_what_the_analysis_asks_for() -> None:
    (found,) = measurements(results_of(record(ROW), record(ROW, 1)))
    assert (found.kernel, found.accuracy, found.cache, found.row_alignment_bytes) == ("pipelined", "fp32", "cold", 16)
    (dense,) = measurements(results_of(record(ROW).model_copy(update={"layout": "dense", "n": 4098, "k": 4098})))
    assert dense.row_alignment_bytes == 8
    assert found.shared_bytes == ROW["shared_bytes"] and found.occupancy == ROW["occupancy"]
    assert found.interval_ms is not None and found.interval_ms.hi == found.q3_ms
    assert found.h2d_ms is not None and found.round_ms == pytest.approx([ROW["kernel_ms"]] * 2)


def test_results_become_a_published_file(tmp_path: Path) -> None:
    results = collect(job(), kept(two_rounds()))
    document = publish(results)
    path = tmp_path / f"{document['name']}.json"
    path.write_text(json.dumps(document))
    publication = read(path)
    assert (publication.name, publication.report) == ("nvidia_h200_the_ladder", None)
    assert publication.device.compute_capability == (9, 0) and publication.citation.date == "2026-11-21"
    found, own = from_publication(publication), measurements(results)
    assert [(one.kernel, one.n) for one in found] == [(one.kernel, one.n) for one in own]
    assert [one.gflops for one in found] == pytest.approx(
        [one.gflops for one in own], rel=1e-7
    )  # eight digits are published
    assert [one.interval_ms for one in found] == [pytest.approx(one.interval_ms, rel=1e-4) for one in own]
    assert publication.rooflines[0].ridge_flop_per_byte == pytest.approx(66908.16 / 4814.304)


def test_a_config_that_cannot_be_is_shown_as_it_was_asked() -> None:
    broken = ROW | {"config": {"block_m": 0, "thread_n": 0}}
    found = only(results_of(record(broken, status="skipped", reason="No.", kernel_ms=None, gflops=None)), "pipelined")
    assert (found.config, found.ai_tile, found.roof_gflops) == ({"block_m": 0, "thread_n": 0}, None, None)


def test_an_attempt_that_cannot_be_read_is_left_out() -> None:
    findings = kept([record(ROW)]) | {"record:0:ffff": b"{}", "attempt:1": attempt().model_dump_json().encode()}
    assert len(collect(job(), findings).cases) == 1


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=200))
def test_spread_and_interval_are_in_order(samples: list[float]) -> None:
    found = summarize(samples)
    inner = [found.min, found.q1, found.median, found.q3, found.p95, found.max]
    assert inner == pytest.approx(sorted(inner))
    interval = ci95(sorted(samples))
    assert (interval is None) == (len(samples) < 6)
    if interval:
        assert found.min <= interval[0] <= found.median <= interval[1] <= found.max


def test_the_interval_of_the_median_is_that_of_the_tables() -> None:
    """Ranks that tables of the sign test give for 95 %: 2 and 9 of 10, 10 and 21 of 30, 40 and 61 of 100."""
    for count, ranks in ((10, (2, 9)), (30, (10, 21)), (100, (40, 61))):
        assert ci95([float(rank) for rank in range(1, count + 1)]) == ranks
