"""Two runs case by case, their surroundings, and one case over many runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from analysis.comparison.by_size import by_size
from analysis.comparison.compare import CaseComparison, Run, compare, compare_case, run_of
from analysis.comparison.environment import Difference, differences, fingerprint
from analysis.comparison.history import history
from analysis.measurement import Device, Measurement
from analysis.results import collect
from tests.support.recorded import h200, made, timed
from tests.unit.analysis.findings import job, kept, spec, two_rounds

SWAPPED = {
    "faster": "slower",
    "slower": "faster",
    "same": "same",
    "ambiguous": "ambiguous",
    "not comparable": "not comparable",
    "unusable": "unusable",
}


@st.composite
def samples(draw: st.DrawFn) -> Measurement:
    """Near 1 ms, so that every verdict comes up."""
    fastest = draw(st.floats(0.97, 1.03))
    median = fastest * draw(st.floats(1, 1.01))
    clock = draw(st.sampled_from([None, 1500.0, 1980.0]))
    return timed(fastest, median, median * draw(st.floats(1, 1.02)), sm_clock_mhz=clock)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((1.0, 1.001, 1.002), (0.98, 0.981, 0.982), "faster"),
        ((1.0, 1.001, 1.002), (1.02, 1.021, 1.022), "slower"),
        ((1.0, 1.001, 1.002), (1.0, 1.001, 1.002), "same"),
        ((1.0, 1.001, 1.002), (1.001, 1.002, 1.003), "same"),  # half of each in the other
        ((1.0, 1.002, 1.004), (1.003, 1.005, 1.007), "ambiguous"),  # a quarter
        ((1.0, 1.001, 1.002), (1.004, 1.005, 1.006), "ambiguous"),  # apart, by less than 0.5 %
        ((1.0, 1.0, 1.0001), (1.004, 1.0045, 1.0049), "same"),  # apart, and all within 0.5 %
        ((1.0, 1.001, 1.03), (1.0, 1.001, 1.03), "ambiguous"),  # too wide
        ((1.0, 1.001, 1.018), (1.0, 1.008, 1.018), "ambiguous"),  # medians 0.7 % apart
        ((1.0, 1.0, 1.0), (1.0, 1.0, 1.0), "same"),
    ],
)
def test_verdicts(before: tuple[float, float, float], after: tuple[float, float, float], verdict: str) -> None:
    assert compare_case(timed(*before), timed(*after)).verdict == verdict


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"cache": "cold"}, {"cache": "warm"}, "Not measured alike: cache cold before, warm after. In time"),
        ({"layout": "padded"}, {"layout": "dense"}, "Not measured alike: rows padded before, dense after. In time"),
        ({"data": "normal"}, {"data": "zeros"}, "Not measured alike: data normal before, zeros after. In time"),
        ({"data": "normal"}, {}, "In time"),
        ({"cache": "warm"}, {"cache": "warm"}, "In time"),
    ],
)
def test_cases_that_were_not_measured_alike_are_not_compared(
    before: dict[str, Any], after: dict[str, Any], why: str
) -> None:
    old, new = timed(1.0, 1.001, 1.002, **before), timed(0.5, 0.501, 0.502, **after)
    found, (by_the_size,) = compare_case(old, new), by_size([old], [new])
    assert found.why.startswith(why)
    assert found.verdict == ("faster" if why == "In time" else "not comparable")
    assert (by_the_size.ratio is None) == (by_the_size.why_not != "") == (why != "In time")


def test_arithmetic_of_another_class_is_another_product() -> None:
    """TensorFloat-32 is no faster float32: each class is compared with its own."""
    fp32, tf32 = (timed(ms, ms, ms, accuracy=accuracy) for ms, accuracy in ((1.0, "fp32"), (0.2, "tf32")))
    assert by_size([fp32], [tf32]) == []
    assert [one.ratio for one in by_size([fp32, tf32], [tf32, fp32])] == [1.0, 1.0]
    assert [one.ratio for one in by_size([fp32], [replace(fp32, accuracy=None)])] == [1.0]


def test_results_say_how_they_were_measured() -> None:
    asked = spec(data={"distribution": "zeros"})
    (one, *_) = run_of(collect(job(asked), kept(two_rounds()))).measurements
    assert (one.cache, one.layout, one.data) == ("cold", "padded", "zeros")


def test_a_history_follows_what_was_measured_alike() -> None:
    """Nine runs with a cold cache and one with a warm one, which is no improvement."""
    cold = [Run(name=str(number), measurements=[timed(1.0, 1.001, 1.002, cache="cold")]) for number in range(9)]
    warm = Run(name="warm", measurements=[timed(0.5, 0.501, 0.502, cache="warm")])
    *_, last = history([*cold, warm], made())
    assert (last.run, last.compared_with, last.mark) == ("warm", 0, None)


def test_what_lies_within_half_a_percent_is_the_same_however_precise() -> None:
    """A run that is told more precisely must not become less alike."""
    judged = compare_case(timed(1.0, 1.0, 1.0), timed(1.001, 1.001, 1.001))
    assert (judged.verdict, judged.why) == ("same", "All of both intervals within 0.10 %.")


def test_a_difference_must_hold_in_cycles_where_clocks_are_known() -> None:
    before, after = timed(1.0, 1.001, 1.002, sm_clock_mhz=1500), timed(1.1, 1.101, 1.102, sm_clock_mhz=1365)
    judged = compare_case(before, after)
    assert judged.verdict == "ambiguous"
    assert judged.why == "In time its intervals lie 9.8 % apart, but not in cycles: the clocks were 1500 and 1365 MHz."
    assert compare_case(before, replace(after, sm_clock_mhz=1500)).verdict == "slower"
    assert compare_case(before, replace(after, sm_clock_mhz=None)).verdict == "slower"
    assert compare_case(before, replace(after, sm_clock_mhz=1000)).verdict == "ambiguous"  # fewer cycles, more time


def test_medians_may_differ_by_as_much_as_rounds_of_a_run_do() -> None:
    before, after = timed(1.0, 1.004, 1.015), timed(1.001, 1.013, 1.016)
    assert compare_case(before, after).verdict == "ambiguous"
    rounds = replace(before, round_ms=(1.0, 1.012))
    assert compare_case(rounds, after).verdict == compare_case(after, rounds).verdict == "same"
    assert compare_case(replace(before, round_ms=(1.004, 1.004)), after).verdict == "ambiguous"
    far = timed(1.001, 1.03, 1.031)
    assert compare_case(replace(before, round_ms=(1.0, 1.1)), far).verdict == "ambiguous"


def test_results_of_two_benchmarks() -> None:
    results = collect(job(), kept(two_rounds()))
    device = results.device | {"uuid": "GPU-other"}
    again = run_of(results.model_copy(update={"device": device}))
    found = compare(run_of(results), again)
    assert found.counts["same"] == len(found.cases) == len(results.cases)
    assert found.environment == (Difference(name="device.uuid", before=results.device["uuid"], after="GPU-other"),)


def test_the_ratio_and_its_interval() -> None:
    judged = compare_case(timed(2.0, 2.2, 2.4), timed(1.0, 1.1, 1.2))
    assert judged.ratio == pytest.approx(2) and judged.ratio_interval == pytest.approx((2 / 1.2, 2.4))


def test_what_is_missing_is_said() -> None:
    known, failed = timed(1.0, 1.1, 1.2), made(status="incorrect")
    assert (none := compare_case(known, failed)).verdict == "unusable"
    assert (none.ratio, none.why) == (None, "The second run has no figure for it (incorrect).")
    without_noise = compare_case(known, made(kernel_ms=0.5))
    assert (without_noise.verdict, without_noise.ratio, without_noise.ratio_interval) == ("ambiguous", 2.2, None)


def runs() -> tuple[Run, Run]:
    """The recorded run, and the same with one kernel twice as fast, one case gone, and another driver."""
    before = [one for one in h200() if one.n > 2048]
    after = [
        replace(one, **{name: getattr(one, name) / 2 for name in ("kernel_ms", "fastest_ms", "slowest_ms")})
        if one.kernel == "naive"
        else one
        for one in before
        if (one.kernel, one.n) != ("cublas", 8192)
    ]
    surroundings = {"cores": 16, "recorded_at": "then", "versions": {"cupy": "14.2.0"}}
    return (
        Run(name="a", measurements=before, environment=surroundings),
        Run(name="b", measurements=after, environment=surroundings | {"versions": {"cupy": "14.3.0"}}),
    )


def test_two_runs() -> None:
    comparison = compare(*runs())
    assert comparison.counts == {
        "faster": 3,
        "slower": 0,
        "same": 8,
        "ambiguous": 0,
        "not comparable": 0,
        "unusable": 0,
    }
    assert [(one.kernel, one.n) for one in comparison.only_before] == [("cublas", 8192)]
    assert comparison.only_after == ()
    assert comparison.environment == (Difference(name="versions.cupy", before="14.2.0", after="14.3.0"),)


def test_swapping_two_runs_swaps_the_verdicts() -> None:
    before, after = runs()
    there, back = compare(before, after), compare(after, before)
    assert back.counts == {SWAPPED[verdict]: count for verdict, count in there.counts.items()}
    assert (there.only_before, there.only_after) == (back.only_after, back.only_before)


def test_cases_differ_by_config_and_shape() -> None:
    one, other = timed(1, 1, 1, config={"block_m": 8}), timed(1, 1, 1, config={"block_m": 16})
    comparison = compare(Run(name="a", measurements=[one, one]), Run(name="b", measurements=[other]))
    assert (comparison.cases, comparison.only_before, comparison.only_after) == ((), (one,), (other,))


def test_of_a_case_that_is_there_twice_the_first_counts() -> None:
    twice = Run(name="a", measurements=[timed(1, 1, 1), timed(2, 2, 2)])
    assert [case.verdict for case in compare(twice, Run(name="b", measurements=[timed(1, 1, 1)])).cases] == ["same"]


def swapped(judged: CaseComparison) -> CaseComparison:
    return compare_case(judged.after, judged.before)


@given(samples(), samples())
def test_the_verdict_is_symmetric(before: Measurement, after: Measurement) -> None:
    judged = compare_case(before, after)
    back = swapped(judged)
    assert back.verdict == SWAPPED[judged.verdict]
    assert judged.ratio is not None and back.ratio == pytest.approx(1 / judged.ratio)
    assert judged.ratio_interval and judged.ratio_interval.lo <= judged.ratio * (1 + 1e-9)
    assert judged.ratio <= judged.ratio_interval.hi * (1 + 1e-9)


@given(samples(), samples(), st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_the_verdict_does_not_depend_on_the_unit(before: Measurement, after: Measurement, scale: float) -> None:
    def scaled(one: Measurement) -> Measurement:
        assert one.fastest_ms and one.kernel_ms and one.q3_ms
        fastest, median, q3 = (scale * ms for ms in (one.fastest_ms, one.kernel_ms, one.q3_ms))
        return replace(one, fastest_ms=fastest, kernel_ms=median, q3_ms=q3)

    assert compare_case(scaled(before), scaled(after)).verdict == compare_case(before, after).verdict


@given(samples())
def test_a_case_is_the_same_as_itself_or_too_wide(one: Measurement) -> None:
    assert one.q3_ms and one.fastest_ms and one.kernel_ms
    assume(abs((one.q3_ms - one.fastest_ms) / one.kernel_ms - 0.02) > 1e-9)
    wide = (one.q3_ms - one.fastest_ms) / one.kernel_ms > 0.02
    assert compare_case(one, one).verdict == ("ambiguous" if wide else "same")


def test_surroundings() -> None:
    before = {"cores": 16, "recorded_at": "2026-11-20", "versions": {"cupy": "14.2.0", "driver": "580"}}
    after = {"cores": 8, "recorded_at": "2026-11-21", "versions": {"cupy": "14.2.0"}, "cpu": "other"}
    assert [(one.name, one.before, one.after) for one in differences(before, after)] == [
        ("cores", 16, 8),
        ("cpu", None, "other"),
        ("versions.driver", "580", None),
    ]
    assert fingerprint(before | {"project": "0.1"}) == fingerprint(before | {"project": "0.2", "recorded_at": "later"})
    assert fingerprint(before) != fingerprint(after)


def marks(times_ms: Sequence[float], **fields: object) -> list[str | None]:
    case = timed(1.0, 1.0, 1.0, **fields)
    taken = [Run(name=str(at), measurements=[replace(case, kernel_ms=ms)]) for at, ms in enumerate(times_ms)]
    return [point.mark for point in history(taken, case)]


STEADY = [1.0, 1.002, 0.998, 1.001, 0.999, 1.0, 1.001, 0.999]


def test_marks_of_a_history() -> None:
    assert marks([*STEADY, 1.1, 1.0, 0.9]) == [None] * 8 + ["regression", None, "improvement"]
    assert marks([*STEADY[1:], 1.1]) == [None] * 8  # seven runs are too few
    assert marks([1.0] * 8 + [1.004, 1.006]) == [None] * 9 + ["regression"]  # without spread, by 0.5 % at least


def test_a_clock_makes_no_mark() -> None:
    case = timed(1.0, 1.0, 1.0, sm_clock_mhz=1980)
    slow = replace(case, kernel_ms=1.1, sm_clock_mhz=1800)
    taken = [Run(name="r", measurements=[one]) for one in [case] * 8 + [slow]]
    assert [point.mark for point in history(taken, case)] == [None] * 9
    assert marks([*STEADY, 1.1], sm_clock_mhz=1980)[-1] == "regression"


def test_other_devices_and_surroundings_are_no_past() -> None:
    case = timed(1.0, 1.0, 1.0)
    slow = replace(case, kernel_ms=2.0)
    past = [Run(name="r", measurements=[case], environment={"driver": "580"})] * 8
    elsewhere = Run(name="r", measurements=[replace(slow, device=Device(name="other"))], environment={"driver": "580"})
    newer = Run(name="r", measurements=[slow], environment={"driver": "590"})
    gone = Run(name="r", measurements=[replace(slow, status="incorrect")], environment={"driver": "580"})
    points = history([*past, elsewhere, newer, gone], case)
    assert [(point.compared_with, point.mark) for point in points[8:]] == [(0, None), (0, None)]
    assert (
        history([*past, Run(name="r", measurements=[slow], environment={"driver": "580"})], case)[-1].mark
        == "regression"
    )
