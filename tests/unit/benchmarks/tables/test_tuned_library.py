"""What the docs say of the library tuned, where it was measured in a kernel's own rounds."""

from __future__ import annotations

from statistics import median

import pytest

from benchmarks.kernel_targets import Target
from benchmarks.tables.targets import Beside, beside, kernel_targets
from tests.support.recorded import recorded_results

LARGE = recorded_results("large")


def with_tuned(target: Target, plain: Beside, faster: float, rounds: int) -> Beside:
    """The target with a tuned library that is so many times faster in the first round, and a tenth more in each."""
    ms = plain.ours.kernel_ms or 0.0
    theirs = [ms / (faster + 0.1 * number) for number in range(rounds)]
    ours, tuned = (
        plain.ours.model_copy(
            update={
                "kernel_ms": median(times),
                "rounds": tuple(
                    plain.ours.rounds[0].model_copy(update={"round": number, "kernel_ms": each})
                    for number, each in enumerate(times)
                ),
            }
        )
        for times in ([ms] * rounds, theirs)
    )
    tuned = tuned.model_copy(update={"kernel": "cublas_tuned", "case": "tuned"})
    others = [case for case in LARGE.records if case.case != ours.case]
    (one,) = beside(target, {target.name: LARGE.model_copy(update={"records": (*others, ours, tuned)})})
    return one


def test_fewer_than_six_rounds_have_no_interval_of_their_own() -> None:
    """Their range holds the true ratio too seldom: one round's would be a single point, beyond doubt."""
    target = Target(kernel="pipelined", dtype="float32", bounds={4097: (1.0, 2.0)}, beside=("cublas_tuned",))
    (plain,) = beside(target, {target.name: LARGE})
    for rounds in (1, 5):
        one = with_tuned(target, plain, 3.0, rounds)
        assert one.best is one.library_tuned and one.ratio is not None
        assert one.ratio.lo < 1 / (3.0 + 0.1 * (rounds - 1)) and one.ratio.hi > 1 / 3.0


def test_the_library_tuned_in_the_same_rounds_is_its_best_where_it_is_fastest_and_rounds_are_paired() -> None:
    target = Target(kernel="pipelined", dtype="float32", bounds={4097: (1.0, 2.0)}, beside=("cublas_tuned",))
    assert target.padded_name not in target.specs and "cublas_tuned" in str(target.specs[target.name]["kernels"])
    (plain,) = beside(target, {target.name: LARGE})
    assert plain.library is not None and plain.library_tuned is None
    for faster, is_best in ((0.5, False), (3.0, True)):
        one = with_tuned(target, plain, faster, rounds=6)
        assert (one.best is one.library_tuned) == is_best
    assert one.ratio is not None
    assert one.ratio.lo == pytest.approx(1 / 3.5) and one.ratio.hi == pytest.approx(1 / 3.0)
    assert one.ratio.lo < one.ratio.value < one.ratio.hi
    told = "\n".join(kernel_targets({target.name: LARGE}, [target]))
    assert "not recorded" in told, "of a run without it"
