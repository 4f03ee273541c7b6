"""Whether `make stress` tells right products from wrong ones: of every form, on a GPU that numpy plays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.recorded import read
from jobs.errors import KernelUnavailable
from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES
from tests.stress import proof
from tests.stress.__main__ import main
from tests.stress.asked import chosen, request
from tests.stress.cases import EXACT, Case, Deck
from tests.stress.forms import FORMS, FormName
from tests.stress.given import given
from tests.stress.proof import wrong
from tests.stress.reference import fault
from tests.support.kernels.catalogue import mirrored_at_any_size
from tests.support.played.any_kernel import H200, PlayedGpu
from worker.cpu import blas as cpu_blas
from worker.cpu import runner as runner_module
from worker.cpu.device import cpu_info
from worker.cpu.grouped import multiply_grouped
from worker.cpu.scaled import multiply_scaled
from worker.device.scaled import ScaledOperand

SEED, LOOKED_AT = 5, 6000
LEAST = 4  # rows, columns and steps of k of the products looked at
CPU = ["--device", "cpu", "--seed", str(SEED)]


@pytest.fixture(autouse=True)
def triangles() -> Iterator[None]:
    with mirrored_at_any_size():
        yield


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the service's own check, which would find most of it first."""
    monkeypatch.setattr(proof, "_said", lambda *_: None)


@cache
def drawn() -> list[Case]:
    with mirrored_at_any_size():
        return [*map(Deck(SEED, H200.traits).case, range(LOOKED_AT))]


@cache
def cases_of(form: FormName, *, exact: bool = True) -> tuple[Case, ...]:
    """The smallest product of that form by each type; those whose kernel does the epilogue are long."""
    found: dict[str, Case] = {}
    for case in drawn():
        one = case.problem
        if case.form == form and case.exact == exact and min(one.m, one.n, one.k) >= LEAST and is_plain(case):
            kept = found.setdefault(one.dtype, case)
            found[one.dtype] = min(kept, case, key=lambda each: each.problem.flops)
    return tuple(found.values())


def is_plain(case: Case) -> bool:
    """Whether each element of the product is seen in what is delivered."""
    after = case.drawn.ending
    return after is None or (after.alpha != 0.0 and after.activation != "relu" and case.problem.dtype != "float16")


def one_element(c: Array) -> None:
    """The last one, by the bits that count most below its sign's."""
    words = c.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[min(c.itemsize, 8)]).reshape(-1)
    words[-1] ^= words.dtype.type(1 << (8 * words.itemsize - 3))


def two_rows(c: Array) -> None:
    """Swapped with each other."""
    rows = c.reshape(-1, c.shape[-1])
    rows[[0, -1]] = rows[[-1, 0]]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("exact", [True, False])
def test_right_products_of_every_form_pass(form: FormName, exact: bool) -> None:
    runner = PlayedGpu()
    assert cases_of(form, exact=exact) or form == "tolerance"
    for case in cases_of(form, exact=exact)[: 1 if form == "fused" else None]:
        assert wrong(runner, case, SEED) is None, case


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("form", sorted({*FORMS} - {"tolerance"}))
@pytest.mark.parametrize("spoil", [one_element, two_rows])
def test_a_wrong_element_and_a_wrong_row_are_found(form: FormName, spoil: Callable[[Array], None]) -> None:
    for case in cases_of(form)[: 1 if form == "fused" else None]:
        said = wrong(PlayedGpu(spoil), case, SEED)
        assert said is not None and ("elements are wrong" in said or "do not follow" in said), (case, said)


@pytest.mark.usefixtures("unchecked")
def test_sums_of_a_kernel_with_an_epilogue_are_looked_at_besides_what_is_delivered() -> None:
    case = next(each for each in cases_of("fused") if each.drawn.ending and each.drawn.ending.activation)
    said = wrong(PlayedGpu(spoil_sums=one_element), case, SEED)
    assert said is not None and said.startswith("before its activation")
    said = wrong(PlayedGpu(one_element), case, SEED)
    assert said is not None and "do not follow" in said


@pytest.mark.parametrize("exact", [True, False])
def test_a_wrong_scale_is_found(monkeypatch: pytest.MonkeyPatch, exact: bool) -> None:
    """A kernel that takes one scale of A for another; the check of the service is not asked."""
    (case,) = cases_of("scaled", exact=exact)
    asked = given(replace(case, drawn=replace(case.drawn, ending=None)), np.random.default_rng(1))
    assert isinstance(asked.a, ScaledOperand) and isinstance(asked.b, ScaledOperand)
    right = multiply_scaled(case.problem, asked.a, asked.b)
    assert fault(case, asked, core_of(case, right)) is None
    asked.a.scales.elements[...] = np.where(asked.a.scales.elements == 0, 1, asked.a.scales.elements)
    asked.b.scales.elements[...] = np.where(asked.b.scales.elements == 0, 1, asked.b.scales.elements)
    asked.a.scales.elements.flat[0] *= 2
    other = multiply_scaled(case.problem, asked.a, asked.b)
    asked.a.scales.elements.flat[0] /= 2
    assert fault(case, asked, core_of(case, other)) is not None


def core_of(case: Case, c: Array) -> Array:
    return c.reshape(case.problem.batch, case.problem.m, case.problem.n)


@pytest.mark.parametrize("form", ["plain", "grouped", "stacked", "tolerance"])
def test_an_element_just_outside_its_class_is_found(form: FormName) -> None:
    """By the reference alone; one that is off by a third of that is not."""
    for case in cases_of(form, exact=False):
        if case.accuracy != "fp32" or DTYPES[case.problem.dtype].is_complex or case.problem.dtype != "float32":
            continue
        asked = given(case, np.random.default_rng(1))
        c = core_of(case, PRODUCTS[form](case, asked.arrays)).copy()
        a, b = (each.astype(np.float64) for each in asked.arrays)
        assert fault(case, asked, c) is None
        c[-1, -1, -1] += 1e-5 * float(np.abs(a).max() * np.abs(b).max()) * case.problem.k
        said = fault(case, asked, c)
        assert said is not None and "as its class fp32 allows" in said


def _grouped(case: Case, arrays: tuple[Array, Array]) -> Array:
    return multiply_grouped(cpu_blas.multiply, case.problem, *arrays)


PRODUCTS: dict[str, Callable[[Case, tuple[Array, Array]], Array]] = {
    form: _grouped if form == "grouped" else lambda case, arrays: cpu_blas.multiply(case.problem, *arrays)
    for form in FORMS
}


def test_a_product_with_a_tolerance_is_held_to_what_is_proven() -> None:
    runner, beyond = PlayedGpu(), []
    for case in cases_of("tolerance", exact=False):
        asked = given(case, np.random.default_rng(1))
        assert request(case, asked).problem == case.problem
        choice, bound = chosen(runner, case, asked)
        assert choice.kernel is case.kernel and bound is not None and case.drawn.tolerance is not None
        assert 0 < bound[1] <= case.drawn.tolerance[1]
        c = core_of(case, cpu_blas.multiply(case.problem, *asked.arrays))
        assert fault(case, asked, c, bound) is None
        if DTYPES[case.problem.product_dtype].itemsize < 8:
            said = fault(case, asked, c, (bound[0], bound[1] * 1e-6))
            beyond.append(said is not None and "as is proven" in said)
    assert sum(beyond) > 1


def test_other_bits_of_a_second_run_are_found() -> None:
    case = cases_of("reproducible")[0]
    runs = iter((False, True))

    def second(c: Array) -> None:
        if next(runs):
            one_element(c)

    assert wrong(PlayedGpu(second), case, SEED) == "it has other bits when it is computed again."


def test_what_breaks_off_is_told_as_wrong_and_the_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no such device")

    monkeypatch.setattr(runner_module, "CPU_KERNELS", {"cpu_blas": broken})
    assert main([*CPU, "--count", "12", "--kernels", "cpu_blas"]) == 1
    told = capsys.readouterr().out
    assert "it broke off: RuntimeError: no such device" in told and "of 12 products" in told


def test_what_a_library_refuses_is_no_product_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def refused(*_: object) -> None:
        raise KernelUnavailable("the library has no such product.")

    monkeypatch.setattr(runner_module, "CPU_KERNELS", {"cpu_blas": refused})
    out = tmp_path / "cpu_stress.json"
    assert main([*CPU, "--count", "5", "--kernels", "cpu_blas", "--out", str(out)]) == 0
    record = read(out)
    assert len(record["refused"]) + record["products"] == 5 and "no such product" in record["refused"][0][1]


def test_one_wrong_element_is_found_told_and_had_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By one in the last place of a float32: the service's own check lets so little pass."""
    case = next(
        case
        for case in map(Deck(SEED, cpu_info(1).traits).case, range(900))
        if (case.kernel.name, case.form, case.data, case.problem.dtype) == ("cpu_blas", "plain", EXACT, "float32")
        and min(case.problem.k, case.problem.m) > 100
    )
    right = cpu_blas.multiply

    def spoilt(problem: object, a: Array, b: Array, out: Array | None = None) -> Array:
        c = right(case.problem, a, b, out)
        c.reshape(-1)[-1] += 2.0**-12
        return c

    monkeypatch.setattr(runner_module, "CPU_KERNELS", {"cpu_blas": spoilt})
    assert main([*CPU, "--first", str(case.number), "--count", "1"]) == 1
    told = capsys.readouterr().out
    assert f"seed {SEED}, number {case.number}: cpu_blas" in told and f"m={case.problem.m}" in told
    assert f"1 of {case.problem.batch * case.problem.m * case.problem.n} elements are wrong" in told
