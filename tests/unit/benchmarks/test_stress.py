"""`make stress`: its draws, its counts, and short runs of it on the CPU."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.recorded import read
from benchmarks.tables.stress import stress
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.activations import ACTIVATION_NAMES
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTYPES
from tests.stress.__main__ import main
from tests.stress.ahead import programs_beside
from tests.stress.asked import named, own_epilogue
from tests.stress.cases import Case, Deck
from tests.stress.forms import FORMS
from tests.stress.shares import Outcome, Share, run_shares, shares, status_of
from tests.stress.sizes import MAX_LONG_SIZE, MAX_MULTIPLICATIONS
from tests.stress.tally import COLUMNS, OPTIONS, options_of, rows
from tests.stress.ways import TRANSPOSES, types_of
from tests.support.kernels.catalogue import mirrored_at_any_size
from tests.support.played.any_kernel import H200 as DEVICE
from worker.cuda.programs import programs_of_choice

H200 = DEVICE.traits
CPU = ["--device", "cpu", "--seed", "5"]
COUNT, DRAWN = 10_000, 2000
SEED = 1
NONE = Outcome([], [], [])
MAX_PROGRAMS = 1500  # of a run: all cores compile them within some minutes


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    with mirrored_at_any_size():
        return [*map(Deck(SEED, H200).case, range(COUNT))]


@pytest.fixture(scope="module")
def counts(cases: list[Case]) -> dict[tuple[str, str], dict[str, int]]:
    """By kernel and type."""
    with mirrored_at_any_size():
        counted = rows(cases, NONE, H200)
    return {(row[0], row[1]): dict(zip(COLUMNS[2:], row[2:], strict=True)) for row in counted}


def test_a_number_gives_the_same_product_whatever_else_is_drawn() -> None:
    deck = Deck(3, H200)
    numbers = range(40, 46)
    backwards = {number: Deck(3, H200).case(number) for number in reversed(numbers)}
    assert [deck.case(number) for number in numbers] == [backwards[number] for number in numbers]
    assert deck.case(40) != Deck(4, H200).case(40)


def test_every_kernel_and_type_that_the_device_runs_is_drawn_with_every_form_that_it_takes(cases: list[Case]) -> None:
    """By turns: nothing that the catalogue has is left to luck. A kernel that is added later is among them."""
    taken = {
        (kernel.name, dtype, name)
        for kernel in CATALOG
        if kernel.unsupported_because(H200) is None
        for dtype in types_of(kernel, H200)
        for name, form in FORMS.items()
        if form.suits(kernel, dtype)
    }
    assert {(case.kernel.name, case.problem.dtype, case.form) for case in cases} == taken
    assert {(name, dtype) for name, dtype, _ in taken} == {
        (kernel.name, dtype)
        for kernel in CATALOG
        for dtype in kernel.dtypes
        if kernel.unsupported_because(H200, dtype) is None
    }
    least = COUNT // len({name for name, *_ in taken})
    for kernel in {name for name, *_ in taken}:
        assert sum(case.kernel.name == kernel for case in cases) in (least, least + 1)


def test_a_kernel_takes_the_options_that_its_entry_says(counts: dict[tuple[str, str], dict[str, int]]) -> None:
    for (name, dtype), of in counts.items():
        kernel, kind = BY_NAME[name], DTYPES[dtype]  # type: ignore[index]  # a type's name
        assert bool(of["grouped"]) == (kernel.groups is not None and dtype in kernel.groups.dtypes)
        assert bool(of["scaled"]) == (kernel.scales is not None and dtype == "float8_e4m3")
        assert bool(of["conjugated"]) == kind.is_complex
        assert bool(of["symmetric"]) == (not kind.is_complex and not kernel.needs_scales)
        assert bool(of["reproducible"]) == kind.is_integer
        if isinstance(kernel, CudaKernel):
            assert bool(of["triangle"]) == (kernel.triangle is not None)
        if isinstance(kernel, CudaKernel) and dtype in kernel.fused_outputs:
            assert of["fused"] >= 20
        assert of["products"] > of["exact"] > of["products"] / 3 and of["batched"] and of["transposed"]
        assert of["epilogue"] and of["c"]


def test_every_option_is_drawn(counts: dict[tuple[str, str], dict[str, int]]) -> None:
    total = {name: sum(of[name] for of in counts.values()) for name in COLUMNS[2:]}
    assert total["products"] == COUNT and total["wrong"] == 0
    assert all(total[name] > COUNT / 200 for name in OPTIONS)


def test_epilogues_of_kernels_have_each_activation_and_each_type(cases: list[Case]) -> None:
    fused = {
        (own.kernel.name, own.fused.output, own.fused.activation)
        for case in cases
        if case.form in ("fused", "widened") and (own := own_epilogue(case, H200)) is not None
    }
    assert {(name, output) for name, output, _ in fused} == {
        (kernel.name, output)
        for kernel in CATALOG
        if isinstance(kernel, CudaKernel)
        for outputs in kernel.fused_outputs.values()
        for output in outputs
    }
    for name in {name for name, *_ in fused}:
        assert {activation for kernel, _, activation in fused if kernel == name} == {None, *ACTIVATION_NAMES}
    endings = [case.drawn.ending for case in cases if case.form == "fused"]
    assert all(any(getattr(each, added) for each in endings) for added in ("c", "bias"))


def test_kernels_that_leave_small_products_to_another_way_are_drawn_with_larger_ones(cases: list[Case]) -> None:
    for kernel in CATALOG:
        if isinstance(kernel, CudaKernel) and kernel.passes is not None:
            own = [case for case in cases if case.kernel is kernel]
            assert sum(bool(kernel.plan(case.problem, case.config).passes) for case in own) > len(own) / 6, kernel.name


def test_passes_have_each_activation_behind_each_type(cases: list[Case]) -> None:
    endings = {
        (case.problem.product_dtype, case.drawn.ending.activation, case.drawn.ending.output)
        for case in cases
        if case.drawn.ending is not None
    }
    for dtype, outputs in (("float64", 4), ("float32", 3), ("float16", 1), ("bfloat16", 1)):
        found = {(activation, output) for product, activation, output in endings if product == dtype}
        assert len(found) == (len(ACTIVATION_NAMES) + 1) * outputs


def test_each_way_that_operands_lie_is_drawn_and_configs_besides_the_default_one(cases: list[Case]) -> None:
    lie, configs = dict[str, set[object]](), dict[str, set[object]]()
    for case in cases:
        own = f"{case.kernel.name} {case.problem.dtype}"
        lie.setdefault(own, set()).add((case.problem.transpose_a, case.problem.transpose_b))
        configs.setdefault(own, set()).add(tuple(case.drawn.config.items()))
        assert case.kernel.misfit(case.config, case.problem.dtype, H200) is None
    assert all(each == set(TRANSPOSES) for each in lie.values())
    assert {len(each) > 1 for own, each in configs.items() if BY_NAME[own.split()[0]].parameters} == {True}
    over = {(one.problem.a_batched, one.problem.b_batched) for one in cases if one.problem.batch > 1}
    assert over == {(True, True), (True, False), (False, True)}


def test_sizes_are_ragged_and_long_and_no_product_is_too_large_for_its_reference(cases: list[Case]) -> None:
    problems = [case.problem for case in cases]
    sizes = [size for one in problems for size in (one.m, one.n)]
    assert min(sizes) == 1 and 1500 < max(sizes) <= MAX_LONG_SIZE + 128
    assert any(one.k == 0 for one in problems)
    assert all(one.batch * one.m * one.n * one.k <= MAX_MULTIPLICATIONS["gpu"] for one in problems)
    assert 0.3 < sum(size % 2 for size in sizes) / len(sizes) < 0.5
    groups = [one.group_sizes for one in problems if one.group_sizes]
    assert any(0 in sizes for sizes in groups) and all(
        sum(one.group_sizes) == one.m for one in problems if one.group_sizes
    )


def test_all_that_a_run_compiles_is_known_ahead_and_not_too_much(cases: list[Case]) -> None:
    with mirrored_at_any_size():
        programs = {
            program
            for case in cases
            for found in (programs_of_choice(named(case, H200), case.problem, H200), programs_beside(case, H200))
            for program in found
        }
    assert len(programs) < MAX_PROGRAMS
    assert {path.stem for path in {program.path for program in programs}} >= {
        *(kernel.name for kernel in CATALOG if isinstance(kernel, CudaKernel)),
        *("epilogue", "epilogue_check", "fused_check", "complex_epilogue", "mirror", "edge", "dequantise", "sketch"),
    }


def test_only_the_kernels_asked_for() -> None:
    assert {Deck(1, H200, ["cublas"]).case(number).kernel.name for number in range(5)} == {"cublas"}
    with pytest.raises(ValueError, match="none of these"):
        Deck(1, H200, ["cpu_blas"])


def test_wrong_ones_are_counted_where_they_belong(cases: list[Case]) -> None:
    with mirrored_at_any_size():
        (case,) = [each for each in cases[:40] if each.kernel.name == "strassen"]
        (row,) = rows([case], Outcome([case.number], [(case.number, "wrong")], []), H200)
        (refused,) = rows([case], Outcome([case.number], [], [(case.number, "no such product")]), H200)
        found = {*options_of(case, H200)}
    assert row[:5] == ["strassen", "float32", 1, 1, 0] and refused[:5] == ["strassen", "float32", 0, 0, 1]
    assert {name for name, count in zip(COLUMNS[5:], row[5:], strict=True) if count} == found
    assert not any(refused[5:])


def test_a_run_on_the_cpu_finds_nothing_wrong_and_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cpu_stress.json"
    assert main([*CPU, "--count", "60", "--out", str(out)]) == 0
    assert "60 of 60 products" in capsys.readouterr().out
    record = read(out)
    assert (record["seed"], record["products"], record["failures"]) == (5, 60, [])
    assert sum(row[2] for row in record["rows"]) == 60
    assert {row[0] for row in record["rows"]} == {"cpu_blas", "cpu_float64", "cpu_exact"}
    assert record["device"]["device_class"] == "cpu" and record["environment"]["numpy"]
    heading, said, options, counted = stress(out)
    assert heading.startswith("## Random products") and "(seed 5): 60 products" in said and "none of the" in said
    assert "Stacked" in options and "| `cpu_exact` | float64 |" in counted


def test_processes_share_the_same_products(tmp_path: Path) -> None:
    out, cpu = tmp_path / "cpu_stress.json", DeviceTraits("cpu")
    assert main([*CPU, "--first", "3", "--count", "20", "--processes", "2", "--out", str(out)]) == 0
    record, deck = read(out), Deck(5, replace(cpu))
    assert (record["first"], record["asked"], record["products"]) == (3, 20, 20)
    with mirrored_at_any_size():
        assert record["rows"] == rows([deck.case(number) for number in range(3, 23)], NONE, cpu)


def test_shares_are_all_there_is_and_about_equal() -> None:
    assert shares(7, 10, 3) == [Share(7, 3), Share(10, 3), Share(13, 4)]
    assert shares(0, 2, 4) == [Share(0, 1), Share(1, 1)]


def test_no_product_is_begun_after_the_time_is_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*CPU, "--count", "50", "--seconds", "0"]) == 0
    assert "0 of 50 products" in capsys.readouterr().out


@pytest.mark.parametrize(("does", "said"), [("kill -9 $$", "ended with status -9"), ("exit 0", "")])
def test_a_process_that_is_lost_is_told_and_what_others_have_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str, said: str
) -> None:
    """A script in the place of each process: that of the first share is lost, the other says what it found."""
    script = tmp_path / "python"
    found = '{"first":5,"products":2,"failures":[[6,"seed 1, number 6: wrong"]],"refused":[[7,"not here"]]}'
    first = f'case "$*" in *"--first 0 "*) {does};; esac'
    script.write_text(f"#!/bin/sh\nfor last; do :; done\n{first}\necho '{found}' > \"$last\"\nexit 1\n")
    script.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(script))
    numbers, failures, refused = run_shares([Share(0, 5), Share(5, 5)], ["--seed", "1"], ends_at=time.monotonic() + 600)
    assert numbers == [5, 6, 7] and (6, "seed 1, number 6: wrong") in failures and refused == [(7, "not here")]
    lost = [text for number, text in failures if number == 0]
    assert lost == ([f"the process of products 0 to 4 {said}."] if said else [])


def test_a_process_that_does_not_end_in_time_is_ended() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert status_of(process, time.monotonic()) is None and process.returncode is not None
    assert status_of(subprocess.Popen(["false"]), time.monotonic() + 600) == 1
