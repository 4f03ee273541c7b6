"""A run's answer: the fastest of our kernels where nothing disturbed it, beside the library, and what to do next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.answers.answer import Answer, answers
from analysis.condition import of_kind
from analysis.measurement import Device, Measurement
from analysis.sources import accuracy_of, from_publication
from jobs.fleet.workers import Ceilings
from kernels.model.numerics import DTypeName
from kernels.published import PUBLISHED
from kernels.published_records import ConditionKind

H200 = Device(
    name="NVIDIA H200", compute_capability=(9, 0), theoretical=Ceilings(memory_gb_s=4814.0, gflops={"float32": 66900.0})
)


def at(
    kernel: str, gflops: float, n: int = 1024, condition: ConditionKind = "clean", dtype: DTypeName = "float32"
) -> Measurement:
    return Measurement(
        label=kernel,
        kernel=kernel,
        dtype=dtype,
        m=n,
        n=n,
        k=n,
        accuracy=accuracy_of(kernel, dtype),
        device=H200,
        condition=of_kind(condition),
        gflops=gflops,
        kernel_ms=2 * n**3 / (gflops * 1e6),
    )


def only(*found: Measurement) -> Answer:
    (answer,) = answers(found)
    return answer


def test_the_library_is_held_beside_and_never_the_answer() -> None:
    answer = only(at("cublas", 50000.0), at("naive", 3000.0), at("warp_tiled", 49000.0))
    assert (answer.kernel, answer.library, answer.is_library) == ("warp_tiled", "cublas", False)
    assert answer.fraction_of_library == pytest.approx(0.98)
    assert answer.fraction_of_peak == pytest.approx(49000 / 66900) and answer.peak_kind == "theoretical"
    told = "warp_tiled is the fastest hand-written kernel in float32, at N = 1024: 49 TFLOP/s, 98.0 % of cublas (50 "
    assert answer.summary.startswith(told)


def test_a_disturbed_case_is_not_the_answer_however_fast() -> None:
    answer = only(at("naive", 9000.0, condition="contended"), at("shared_tiled", 8000.0), at("cublas", 50000.0))
    assert (answer.kernel, answer.condition) == ("shared_tiled", "clean")
    assert "not ranked: 1 of 3 cases" in answer.trust


@pytest.mark.parametrize("condition", ["contended", "throttled", "not converged"])
def test_where_all_are_disturbed_nothing_is_held_against_the_library(condition: ConditionKind) -> None:
    answer = only(at("naive", 9000.0, condition=condition), at("cublas", 50000.0))
    assert (answer.condition, answer.fraction_of_library, answer.library_gflops) == (condition, None, 50000.0)
    assert of_kind(condition).sentence in answer.trust and "nothing is ranked" in answer.trust
    assert "easure again" in answer.next_step
    assert "% of cublas" not in answer.summary


def test_a_disturbed_library_is_no_yardstick() -> None:
    answer = only(at("naive", 9000.0), at("cublas", 5000.0, condition="contended"))
    assert answer.fraction_of_library is None
    assert answer.trust.startswith("Not comparable with cublas there. Another process")


def test_the_library_counts_at_the_same_size_alone() -> None:
    answer = only(at("naive", 9000.0, n=2048), at("naive", 8000.0), at("cublas", 50000.0))
    assert (answer.n, answer.library, answer.fraction_of_library) == (2048, None, None)


def test_types_and_accuracies_answer_for_themselves() -> None:
    found = answers([at("naive", 1.0), at("cublas_tf32", 9.0), at("naive", 2.0, dtype="int32"), at("cublas", 3.0)])
    assert [(one.kernel, one.dtype, one.accuracy) for one in found] == [
        ("naive", "float32", "fp32"),
        ("naive", "int32", "exact"),
        ("cublas_tf32", "float32", "tf32"),
    ]
    assert found[-1].is_library and found[-1].fraction_of_library == 1.0


def test_nothing_measured_answers_nothing() -> None:
    assert answers([]) == ()
    assert answers([replace(at("naive", 1.0), status="incorrect")]) == ()


@pytest.mark.parametrize(
    ("gflops", "step"),
    [
        (51000.0, "naive is ahead here"),
        (48000.0, "It is close to the library"),
        (9000.0, "Measure hopper_fp32 and fp32_emulated as well"),
    ],
)
def test_the_next_step_follows_from_the_distance(gflops: float, step: str) -> None:
    assert only(at("naive", gflops), at("cublas", 50000.0)).next_step.startswith(step)


@pytest.mark.parametrize(("slowest", "is_ahead"), [(0.995, True), (1.005, False)])
def test_what_the_samples_leave_open_is_not_called_ahead(slowest: float, is_ahead: bool) -> None:
    """A kernel that takes 0.99 of the library's time, by its median."""
    library, ours = at("cublas", 50000.0), at("naive", 50000.0 / 0.99)
    assert library.kernel_ms and ours.kernel_ms
    ours = replace(ours, fastest_ms=ours.kernel_ms, q3_ms=slowest * library.kernel_ms)
    library = replace(library, fastest_ms=library.kernel_ms, q3_ms=library.kernel_ms)
    step = only(ours, library).next_step
    assert step.startswith("naive is ahead here" if is_ahead else "It is close to the library")


def test_the_recorded_runs_have_answers() -> None:
    (grade,) = answers(from_publication(PUBLISHED["h200_grade"]))
    assert (grade.kernel, grade.n, grade.library) == ("pipelined", 2048, "cublas")
    by_dtype = {one.dtype: one.kernel for one in reversed(answers(from_publication(PUBLISHED["h200_vs_cublas"])))}
    assert by_dtype["bfloat16"] == "hopper_bf16"
