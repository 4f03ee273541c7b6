"""What a benchmark's job page says of its measurements."""

from __future__ import annotations

from service.dashboard.jobs.findings import answer_of, found_so_far
from tools.harness.benchmarks import case_record, square


def test_a_disturbed_measurement_is_never_the_answer() -> None:
    small, large = square(64), square(128)
    records = [case_record(small), case_record(large), case_record(large, contended=True, gflops=1e6)]
    answer = answer_of(records)
    assert answer is not None and answer.startswith("Fastest at float32 128×128×128, the largest product: ")
    assert "1 000 000" not in answer.replace("\u202f", " ")
    assert answer.endswith("1 measurement disturbed or not converged: left out.")
    open_ended = case_record(large, stop_reason="max_samples", ci95_lo_us=1.0, ci95_hi_us=1e6)
    assert answer_of([case_record(large, throttled=True), open_ended]) is None and answer_of([]) is None


def test_the_largest_product_is_named_as_such_only_if_none_is_larger() -> None:
    answer = answer_of([case_record(square(64)), case_record(square(128), contended=True)])
    assert answer is not None
    assert answer.startswith("Fastest at float32 64×64×64, the largest product with a clean figure: ")


def test_the_last_cases_come_first() -> None:
    records = [case_record(square(size)) for size in (64, 96, 128)]
    found = found_so_far(records)
    assert found is not None and [one.m for one in found.last] == [128, 96, 64]
    assert found.by_status == {"ok": 3} and len(found.points.split()) == 3
    assert found_so_far([]) is None
