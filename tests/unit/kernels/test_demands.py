"""Which kernels meet a demand, and which of them `auto` takes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kernels.catalog import BY_NAME, CATALOG
from kernels.model.architectures import H200
from kernels.model.bounds import BENIGN, Magnitudes, any_magnitudes
from kernels.model.numerics import AccuracyName, DTypeName, Problem, loosest
from kernels.selection.choose import choose_from
from kernels.selection.demands import Demand, unmet
from kernels.selection.tuned import TABLES

PROBLEM = Problem(4096, 4096, 4096, "float32")
SMALL = Magnitudes(1.0, 2.0**-30)


def met_by(demand: Demand, dtype: DTypeName = "float32", of: Magnitudes = BENIGN) -> set[str]:
    problem = Problem(4096, 4096, 4096, dtype)
    return {kernel.name for kernel in CATALOG if dtype in kernel.accuracy and demand.is_met(kernel, problem, of, of)}


def chosen(demand: Demand, magnitudes: Magnitudes) -> str:
    """On an H200."""
    kernels = [
        kernel
        for kernel in CATALOG
        if "float32" in kernel.accuracy
        and kernel.unsupported_because(H200.traits, "float32") is None
        and demand.is_met(kernel, PROBLEM, magnitudes, magnitudes)
    ]
    accuracy = loosest(kernel.accuracy["float32"] for kernel in kernels)
    return choose_from(TABLES, PROBLEM, accuracy, H200.traits, among=kernels).kernel.name


def test_a_looser_tolerance_is_met_by_more_kernels() -> None:
    tolerances = (1e-9, 2.0**-24, 1e-7, 3e-4, 9e-4, 3e-3, 2e-2)
    met = [met_by(Demand(each)) for each in tolerances]
    assert all(tighter < looser for tighter, looser in pairwise(met))
    added = [looser - tighter for tighter, looser in pairwise(met)]
    assert added[:2] == [{"cpu_exact"}, {"cpu_float64"}]
    assert {"cublas", "hopper_fp32", "naive", "cpu_blas"} <= added[2] and added[3] == {"fp32_emulated"}
    assert {"hopper_tf32", "cublas_tf32", "cublas_fp16"} <= added[4] and "cublas_bf16" in added[5]


def test_strassen_meets_tolerances_of_norms_alone() -> None:
    assert "strassen" in met_by(Demand(2e-3, "normwise"), of=SMALL)
    assert "strassen" not in met_by(Demand(1.0), of=SMALL)


def test_magnitudes_decide_where_arithmetic_has_a_range() -> None:
    half = {"cublas_fp16"}
    assert half <= met_by(Demand(3e-3), of=Magnitudes(60000.0, 2.0**-14))
    for magnitudes in (Magnitudes(70000.0, 2.0**-14), Magnitudes(1.0, 2.0**-20)):
        met = met_by(Demand(3e-3), of=magnitudes)
        assert not half & met and "cublas_tf32" in met
    assert met_by(Demand(3e-3), of=any_magnitudes("float32")) == {"cpu_float64", "cpu_exact"}
    assert "hopper_fp16" in met_by(Demand(2e-3), "float16", any_magnitudes("float16")), "whatever float16 holds will do"
    assert "cublas" not in met_by(Demand(0.5), "float16"), "it may add parts of k up in 16 bits"


@pytest.mark.parametrize(
    ("tolerance", "accuracy"), [(2e-2, ("bf16", "fp16", "tf32")), (3e-3, ("fp16", "tf32")), (3e-4, ("fp32",))]
)
def test_the_fastest_measured_of_those_is_accepted(tolerance: float, accuracy: tuple[AccuracyName, ...]) -> None:
    kernel = BY_NAME[chosen(Demand(tolerance), Magnitudes(6.0, 1e-3))]
    assert kernel.accuracy["float32"] in accuracy
    assert kernel.name != "fp32_emulated", "its bound is wider"
    steps = [chosen(Demand(each), Magnitudes(6.0, 1e-3)) for each in (2e-2, 9e-4)]
    assert len({*steps}) == 2


def test_integers_are_exact_and_the_same_everywhere() -> None:
    for dtype in ("int8", "int32"):
        kernels = {kernel.name for kernel in CATALOG if dtype in kernel.accuracy}
        assert met_by(Demand(0.0, reproducible=True), dtype) == kernels
    for dtype in ("float16", "bfloat16", "float32", "float64", "float8_e4m3"):
        assert met_by(Demand(reproducible=True), dtype) == {"cpu_exact"}  # type: ignore[arg-type]


def test_a_refusal_names_the_best_there_is() -> None:
    kernels = [BY_NAME[name] for name in ("naive", "cublas_tf32", "strassen")]
    said = unmet(Demand(1e-5), kernels, PROBLEM, "here")
    assert said.endswith("within a componentwise tolerance of 1e-05; the best proven bound is 0.000244, of naive.")
    tiny = Magnitudes(2.0**-100, 2.0**-149)
    assert unmet(Demand(1e-5), kernels, PROBLEM, "here", tiny, tiny).endswith("nothing is proven of any.")
    assert "cpu_exact does, for real floats" in unmet(Demand(reproducible=True), kernels, PROBLEM, "here")
    both = unmet(Demand(1e-9, reproducible=True), CATALOG, PROBLEM, "here")
    assert both.endswith("the best proven bound is 5.96e-08, of cpu_exact.")
