"""The size of a benchmark before it runs: exact counts, and a time estimate that varies as it should."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate import gflops, plan
from jobs.benchmarks.cases import expand, problems
from jobs.benchmarks.size import COUNTLESS, max_cases
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import InvalidRequest
from jobs.fleet.workers import Ceilings, DeviceInfo
from kernels.catalog import CATALOG
from kernels.model.numerics import Problem
from kernels.published import PUBLISHED
from service.bodies.options import parse_model
from tools.harness.benchmarks import CPU, H200


def spec(**fields: Any) -> BenchmarkSpec:
    return parse_model(BenchmarkSpec, {"shapes": [256, 512]} | fields)


SHAPES = st.one_of(
    st.integers(1, 99),
    st.fixed_dictionaries({"m": st.integers(1, 9), "n": st.integers(1, 9), "k": st.integers(1, 9)}),
    st.fixed_dictionaries({"start": st.integers(1, 9), "stop": st.integers(9, 40), "step": st.integers(1, 9)}),
    st.fixed_dictionaries({"start": st.integers(1, 9), "stop": st.integers(9, 99), "count": st.integers(1, 9)}),
    st.fixed_dictionaries({axis: st.lists(st.integers(1, 9), min_size=1, max_size=3) for axis in "mnk"}),
)
CONFIGS = st.one_of(
    st.sampled_from(["default", "all"]),
    st.just([{"tile": 8}, {"tile": 16}]),
    st.just({"grid": {"tile": [8, 9, 16], "thread_n": [2, 4]}}),
)
KERNELS = st.one_of(
    st.sampled_from(["all", "ladder", "best"]),
    st.lists(st.sampled_from(["naive", "shared_tiled", "cublas_tf32", "cpu_blas"]), min_size=1, max_size=3),
    st.just([{"kernel": "shared_tiled_privatized", "configs": "all"}, "warp_tiled"]),
)


@settings(deadline=None, max_examples=60)
@given(
    shapes=st.lists(SHAPES, min_size=1, max_size=3),
    configs=CONFIGS,
    kernels=KERNELS,
    dtypes=st.lists(st.sampled_from(["float16", "float32", "int32"]), min_size=1, max_size=2),
    device=st.sampled_from([CPU, H200]),
)
def test_the_bound_holds(device: DeviceInfo, **fields: Any) -> None:
    asked = parse_model(BenchmarkSpec, fields)
    try:
        count = len(expand(asked, device))
    except InvalidRequest:
        count = 0
    assert count <= max_cases(asked, device.device_class)


def test_the_bound_is_not_beside_the_point() -> None:
    assert max_cases(spec(kernels=["cpu_blas"]), "cpu") == 2 * 2
    assert max_cases(spec(kernels=["naive"], dtypes=["float32", "int32"]), "gpu") == 2 * 2 * 5
    assert max_cases(spec(kernels=["shared_tiled"], configs="all"), "gpu") == 2 * (3 + 4)
    rectangles = [{"m": [1, 2, 3], "n": [1, 2, 3, 4, 5], "k": [1, 2]}]
    assert max_cases(spec(shapes=rectangles, kernels=["cpu_blas"]), "cpu") == 3 * 5 * 2 * 2
    ranges = [{"start": 1, "stop": 10, "step": 4}, {"start": 1, "stop": 99, "count": 7}]
    assert max_cases(spec(shapes=ranges, kernels=["cpu_blas"]), "cpu") == (3 + 7) * 2
    assert max_cases(spec(configs={"grid": {f"p{n}": [1, 2] for n in range(99)}}), "gpu") == COUNTLESS
    assert max_cases(BenchmarkSpec(kind="ceilings"), "gpu") == 0


def test_a_batch_is_one_launch_of_many_products_of_operands_of_their_own() -> None:
    shapes = [{"m": 64, "n": 32, "k": 16, "batch": 1024}, {"m": 64, "n": 32, "k": 16}]
    batched, alone = problems(spec(shapes=shapes))
    assert (batched.batch, batched.a_batched, batched.b_batched) == (1024, True, True)
    assert (alone.batch, alone.a_batched, alone.b_batched) == (1, False, False)
    assert batched.flops == 1024 * alone.flops and batched.operand_bytes == 1024 * alone.operand_bytes
    assert len({case.id for case in expand(spec(shapes=shapes, kernels=["naive"]), H200)}) == 4


def test_counts() -> None:
    found = plan(spec(kernels=["naive", "cpu_blas"], timing={"rounds": 3, "min_samples": 4}), H200)
    assert (found.cases, found.measurements, found.skipped) == (6, 18, 2)  # cuBLAS among them, cpu_blas skipped
    assert found.flops == 2 * (2 * 256**3 + 2 * 512**3) * 3 * 4


@pytest.mark.parametrize(
    "more",
    [
        {"timing": {"rounds": 4}},
        {"timing": {"min_samples": 400, "max_samples": 400}},
        {"timing": {"warmup_ms": 2000.0}},
        {"transfers": {"enabled": True}},
        {"energy": {"enabled": True}},
        {"verify": "full"},
        {"fresh_process": True},
        {"kind": "tune"},
        {"shapes": [256, 8192]},
    ],
)
def test_more_takes_longer(more: dict[str, Any]) -> None:
    plain = {"kernels": ["naive", "register_tiled"], "shapes": [8192]}
    assert plan(spec(**plain | more), H200).estimate_s > plan(spec(**plain), H200).estimate_s


def test_a_case_takes_no_longer_than_its_limit_and_one_sample() -> None:
    large = spec(shapes=[8192], timing={"rounds": 1, "timeout_s": 2.0, "warmup_ms": 0.0})
    sample_s = 2 * 8192**3 / (gflops("cpu_blas", Problem(8192, 8192, 8192, "float32"), CPU) * 1e9)
    assert sample_s > 2.0
    assert plan(large, CPU).estimate_s == pytest.approx(4 * sample_s, rel=0.01)  # three to warm up


def test_speeds_are_those_recorded_on_the_model_itself() -> None:
    (t4,) = (one for one in PUBLISHED.values() if one.report == "000")
    record = next(one for one in t4.records if one.kernel == "cublas" and one.n == 1024)
    device = DeviceInfo(name="NVIDIA T4", device_class="gpu", compute_capability=(7, 5), multiprocessors=40)
    assert gflops("cublas", Problem(1024, 1020, 1028, "float32"), device) == record.gflops


def test_else_they_are_scaled_by_the_roofs() -> None:
    problem = Problem(4096, 4096, 4096, "float32")
    recorded = gflops("warp_tiled", problem, H200)
    assert recorded in {record.gflops for record in PUBLISHED["h200_large"].records if record.kernel == "warp_tiled"}
    assert gflops("warp_tiled", problem, H200.model_copy(update={"name": "Another"})) == pytest.approx(recorded)
    half = H200.model_copy(update={"name": "Half", "multiprocessors": 66})
    assert gflops("warp_tiled", problem, half) == pytest.approx(recorded / 2)
    peak = {"float32": PUBLISHED["h200_large"].device.peak_gflops["float32"] / 4}
    ceilings = H200.theoretical.model_copy(update={"gflops": peak})
    quarter = H200.model_copy(update={"name": "Quarter", "theoretical": ceilings})
    assert gflops("warp_tiled", problem, quarter) == pytest.approx(recorded / 4)


def test_what_was_not_recorded_goes_by_what_was() -> None:
    problem, other = Problem(2048, 2048, 2048, "float32"), H200.model_copy(update={"name": "Another"})
    assert gflops("no_such_kernel", problem, other) == gflops("naive", problem, other)
    roofs = PUBLISHED["h200_large"].device.peak_gflops
    ratio = roofs["float64"] / roofs["float32"]
    in_double = Problem(2048, 2048, 2048, "float64")
    assert gflops("split_k", in_double, other) == pytest.approx(ratio * gflops("split_k", problem, other))


@pytest.mark.parametrize("device", [H200, H200.model_copy(update={"name": "NVIDIA T4", "theoretical": Ceilings()})])
def test_every_kernel_has_a_guess_for_each_of_its_types(device: DeviceInfo) -> None:
    """Also for types of which no roof is known, and for those that no recorded run has."""
    for kernel in CATALOG:
        for dtype in kernel.dtypes:
            assert gflops(kernel.name, Problem(1024, 1024, 1024, dtype), device) > 0, (kernel.name, dtype)
