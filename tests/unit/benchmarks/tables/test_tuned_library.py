"""What the docs say of the library tuned, where it was measured in a kernel's own rounds."""

from __future__ import annotations

import pytest

from benchmarks.kernel_targets import Target
from benchmarks.tables.targets import beside, kernel_targets
from tests.support.recorded import recorded_results

LARGE = recorded_results("large")


def test_the_library_tuned_in_the_same_rounds_is_its_best_where_it_is_fastest_and_rounds_are_paired() -> None:
    target = Target(kernel="pipelined", dtype="float32", bounds={4097: (1.0, 2.0)}, beside=("cublas_tuned",))
    assert target.padded_name not in target.specs and "cublas_tuned" in str(target.specs[target.name]["kernels"])
    (plain,) = beside(target, {target.name: LARGE})
    assert plain.library is not None and plain.library_tuned is None
    for times, is_best in ((0.5, False), (3.0, True)):
        rounds = [
            each.model_copy(update={"kernel_ms": each.kernel_ms and each.kernel_ms / (times + 0.1 * each.round)})
            for each in plain.ours.rounds
        ]
        assert plain.ours.kernel_ms
        tuned = {"kernel": "cublas_tuned", "case": "tuned", "rounds": rounds, "kernel_ms": plain.ours.kernel_ms / times}
        case = plain.library.model_copy(update=tuned)
        (one,) = beside(target, {target.name: LARGE.model_copy(update={"records": (*LARGE.records, case)})})
        assert (one.best is one.library_tuned) == is_best
    assert one.ratio is not None and len(rounds) > 1
    least, most = (1 / (3.0 + 0.1 * each.round) for each in (rounds[-1], rounds[0]))
    assert one.ratio.lo == pytest.approx(least) and one.ratio.hi == pytest.approx(most)
    assert least < one.ratio.value < most
    told = "\n".join(kernel_targets({target.name: LARGE}, [target]))
    assert "not recorded" in told, "of a run without it"
