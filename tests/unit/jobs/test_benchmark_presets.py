"""Presets: each is a sound spec, and does again what its report did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from analysis.estimate import plan
from jobs.benchmarks.cases import Case, check_baseline, check_named, expand
from jobs.benchmarks.presets import PRESETS, find_preset
from jobs.benchmarks.spec import BenchmarkSpec
from jobs.errors import BenchmarkTooLarge, InvalidRequest, UnknownPreset
from jobs.fleet.workers import DeviceInfo
from jobs.settings import Settings
from kernels.catalog import BY_NAME
from kernels.model.numerics import Problem
from kernels.published import PUBLISHED
from kernels.published_records import PublishedRecord
from service.bodies.options import parse_model
from tools.harness.benchmarks import CPU, H200


def spec_of(name: str, device: DeviceInfo) -> BenchmarkSpec:
    return parse_model(BenchmarkSpec, PRESETS[name].fields(on_cpu=device is CPU))


def cases(name: str) -> tuple[Case, ...]:
    return expand(spec_of(name, H200), H200)


def in_report(number: str, *sections: str) -> Iterator[PublishedRecord]:
    """Of a GPU's kernels, in those sections; the sections' names begin so."""
    (publication,) = (one for one in PUBLISHED.values() if one.report == number)
    found = [
        record
        for record in publication.records
        if record.device_class == "gpu" and record.n and record.section.startswith(sections)
    ]
    assert found
    return iter(found)


def has(name: str, record: PublishedRecord) -> bool:
    """Whether a case of the preset is that of the record; what the report does not say of its config is free."""
    return any(
        case.kernel == record.kernel
        and (case.problem.m, case.problem.n, case.problem.k) == (record.m, record.n, record.k)
        and (record.dtype is None or case.problem.dtype == record.dtype)
        and record.config.items() <= case.config.items()
        for case in cases(name)
    )


def missing(name: str, records: Iterator[PublishedRecord]) -> set[tuple[str | None, str, int | None]]:
    return {(one.kernel, str(dict(one.config)), one.n) for one in records if not has(name, one)}


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("device", [CPU, H200], ids=["cpu", "gpu"])
def test_each_preset_is_valid_and_within_limits(name: str, device: DeviceInfo) -> None:
    spec, limits = spec_of(name, device), Settings()
    check_named(spec)
    found = plan(spec, device)
    assert spec.preset == name
    assert found.measurements <= limits.max_benchmark_cases
    assert found.flops <= limits.max_benchmark_flops
    assert found.estimate_s < limits.benchmark_timeout_s / 4
    if spec.kind != "ceilings":
        assert any(case.skip is None for case in expand(spec, device))


def test_quick_is_quick_everywhere() -> None:
    for device in (CPU, H200):
        assert plan(spec_of("quick", device), device).estimate_s < 20


def test_a_group_has_no_kernel_of_other_types_and_a_named_one_says_why_it_is_skipped() -> None:
    assert not [case for case in cases("grade") if "float32" not in BY_NAME[case.kernel].accuracy]
    named = expand(spec_of("grade", H200).model_copy(update={"kernels": ("naive", "hopper_bf16")}), H200)
    assert {case.skip for case in named if case.kernel == "hopper_bf16"} == {
        "hopper_bf16 does not multiply float32 operands; it takes bfloat16."
    }


def test_grade_has_the_sizes_of_grade_sh() -> None:
    sizes = {record.n for record in in_report("000", "Q1.c")}
    assert {case.problem.n for case in cases("grade")} == sizes


def test_block_sizes_has_the_blocks_of_both_reports() -> None:
    assert not missing("block-sizes", in_report("000", "Q2"))
    versions = (record for record in in_report("001", "V") if record.kernel != "coarsened")
    assert not missing("block-sizes", versions)
    assert {case.config["tile"] for case in cases("block-sizes") if case.kernel == "shared_tiled"} == {8, 16, 32}


def test_twenty_sizes_has_the_sizes_of_both_reports() -> None:
    assert not missing("twenty-sizes", in_report("000", "Q4"))
    assert not missing("twenty-sizes", in_report("002", "Analysis"))


def test_config_grid_is_the_table_of_002() -> None:
    assert not missing("config-grid", in_report("002", "Result"))
    assert len([case for case in cases("config-grid") if case.kernel == "register_tiled"]) == 7 * 7


def test_ladder_is_that_of_003() -> None:
    ours = (record for record in in_report("003", "Part") if record.kernel != "tensor_wmma")
    assert not missing("ladder", ours)
    spec = spec_of("ladder", H200)
    assert (spec.dtypes, spec.transfers.enabled) == (("float32", "int32"), True)


def test_levels_are_those_of_004() -> None:
    assert not missing("levels", in_report("004", "Level"))


def test_roofline_lies_on_both_sides_of_the_ridge() -> None:
    intensities = {
        case.problem.flops / (case.problem.operand_bytes + case.problem.product_bytes) for case in cases("roofline")
    }
    assert min(intensities) < 1
    assert max(intensities) > 1000


def test_overrides_replace_fields_and_parts_of_objects() -> None:
    quick = find_preset("quick")
    fields = quick.fields({"shapes": [7], "timing": {"rounds": 5}, "transfers": 3})
    assert (fields["shapes"], fields["transfers"]) == ([7], 3)
    assert fields["timing"] == {**quick.spec["timing"], "rounds": 5}
    assert quick.fields({"kernels": "all"}, on_cpu=True)["kernels"] == "all"


@pytest.mark.parametrize("name", ["", "Quick", 3, None, ["quick"]])
def test_an_unknown_one_is_refused(name: object) -> None:
    with pytest.raises(UnknownPreset, match="there are: quick, grade"):
        find_preset(name)


def test_a_spec_is_expanded_no_further_than_asked() -> None:
    spec = BenchmarkSpec.model_validate({"kernels": ["cpu_blas"], "baseline": "none", "shapes": list(range(1, 101))})
    device = DeviceInfo(name="A CPU", device_class="cpu")
    assert len(expand(spec, device, limit=100)) == 100
    with pytest.raises(BenchmarkTooLarge):
        expand(spec, device, limit=99)


def test_nor_is_one_that_names_the_same_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = 0

    def of_problem(*_: object) -> Iterator[Case]:
        nonlocal made
        while True:
            made += 1
            yield Case("cpu_blas", {}, Problem(m=1, n=1, k=1, dtype="float32"))

    monkeypatch.setattr("jobs.benchmarks.cases._of_problem", of_problem)
    spec = BenchmarkSpec.model_validate({"kernels": ["cpu_blas"], "baseline": "none", "shapes": [1]})
    with pytest.raises(BenchmarkTooLarge):
        expand(spec, DeviceInfo(name="A CPU", device_class="cpu"), limit=10)
    assert made < 100


@pytest.mark.parametrize(
    ("device", "baseline", "dtypes", "words"),
    [
        (CPU, "naive", ["float32"], "naive runs on a GPU, not on a CPU."),
        (H200, "cpu_blas", ["float32"], "cpu_blas runs on a CPU, not on a GPU."),
        (H200, "cublas", ["int32"], "cublas does not multiply int32 operands"),
        (H200, "cublas_fp8_blocks", ["float8_e4m3"], "only operands with block scales"),
        (CPU, "cpu_exact", ["float32"], None),
        (H200, "cublas", ["int32", "float32"], None),  # there is one for some of them
        (CPU, "none", ["float32"], None),
        (CPU, "auto", ["float32"], None),
    ],
)
def test_a_baseline_that_can_be_none_there_is_refused(
    device: DeviceInfo, baseline: str, dtypes: list[str], words: str | None
) -> None:
    """Without it the benchmark would run all the same, and its speeds would be compared with nothing."""
    spec = parse_model(BenchmarkSpec, {"shapes": [64], "dtypes": dtypes, "baseline": baseline})
    if words is None:
        check_baseline(spec, device.traits)
        return
    with pytest.raises(InvalidRequest, match=words) as caught:
        check_baseline(spec, device.traits)
    assert caught.value.field == "baseline"
