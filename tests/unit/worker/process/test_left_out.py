"""A worker whose kernels cannot all run serves with the others, and does not offer those."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

from jobs.errors import DeviceFault, KernelUnavailable, MatmulError, OperandDamaged, OutOfDeviceMemory
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.entry.left_out import LeftOut
from kernels.model.numerics import Problem
from kernels.selection import ahead
from kernels.selection.ahead import likely_products
from kernels.selection.candidates import Choice, NoKernelError, candidates
from kernels.selection.choose import choose
from kernels.selection.composed import real_choice
from tests.support.workers.simulated import H200, SimulatedRunner
from worker.device.runner import Product
from worker.process import readiness
from worker.process.readiness import NotReady, prove

RNG = np.random.default_rng(0)
OFFERED = ("complex_as_real", "naive", "hopper_fp32", "hopper_fp8", "cublas")
FLOATS8 = Problem(601, 499, 60, "float8_e4m3")
COMPLEX = Problem(2048, 2048, 2048, "complex64")
Met = Callable[[str, Problem], None]  # what a kernel meets at a product; it may raise


class Runner(SimulatedRunner):
    """An H200 with a few kernels."""

    def __init__(self, met: Met = lambda _name, _problem: None) -> None:
        super().__init__()
        self.met = met
        self.proved: list[str] = []

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(name for name in OFFERED if name in super(SimulatedRunner, self).kernels)

    @contextmanager
    def compute(self, problem: Problem, choice: Choice, *operands: Any, **more: Any) -> Iterator[Product]:
        self.met(choice.kernel.name, problem)
        self.proved.append(choice.kernel.name)
        with super().compute(problem, replace(choice, kernel=BY_NAME["cpu_blas"]), *operands, **more) as product:
            yield product


def failing(kernel: str, dtype: str, error: Exception) -> Met:
    def met(name: str, problem: Problem) -> None:
        if (name, problem.dtype) == (kernel, dtype):
            raise error

    return met


ALL = 2 * sum(
    not BY_NAME[name].unsupported_because(H200.traits, each) for name in OFFERED for each in BY_NAME[name].dtypes
)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (KernelUnavailable("cublasLt is missing."), "cublasLt is missing."),
        (NoKernelError("It takes other operands."), "It takes other operands."),
        (OSError("/opt/secret/libcublasLt.so"), "It met an unknown error (OSError); the worker's log says more."),
    ],
    ids=["unavailable", "no-kernel", "unknown"],
)
def test_one_that_cannot_run_is_left_out_and_the_rest_serves(
    error: Exception, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MagicMock()
    monkeypatch.setattr(readiness, "log", log)
    runner = Runner(failing("cublas", "float8_e4m3", error))
    assert prove(runner, RNG) == ALL - 2
    why = f"cublas could not multiply float8_e4m3 when its worker started: {reason}"
    assert [(each.kernel, each.dtype, each.reason) for each in runner.device.left_out] == [
        ("cublas", "float8_e4m3", why)
    ]
    log.warning.assert_called_once()
    assert log.exception.called == isinstance(error, OSError)
    traits, cublas = runner.device.traits, BY_NAME["cublas"]
    assert cublas.unsupported_because(traits, "float8_e4m3") == why
    assert runner.kernels == OFFERED and cublas.unsupported_because(traits, "float32") is None, "of others it is"
    assert cublas not in candidates(FLOATS8, "fp8", traits)
    with pytest.raises(NoKernelError, match=re.escape(why)):
        choose("cublas", NO_CONFIG, FLOATS8, "fp8", traits)


def test_one_that_runs_for_no_operands_is_not_offered() -> None:
    runner = Runner(failing("hopper_fp8", "float8_e4m3", KernelUnavailable("It does not compile.")))
    prove(runner, RNG)
    assert runner.kernels == tuple(name for name in OFFERED if name != "hopper_fp8")
    assert BY_NAME["hopper_fp8"].unsupported_because(runner.device.traits) == runner.device.left_out[0].reason
    assert all(choice.kernel.name != "hopper_fp8" for choice, _ in likely_products(runner.device.traits))
    assert any(choice.kernel.name == "hopper_fp8" for choice, _ in likely_products(H200.traits))


def test_one_that_cannot_even_be_planned_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(name: str, *about: Any) -> Choice:
        if name == "hopper_fp32":
            raise NoKernelError("It takes only operands with block scales.")
        return choose(name, *about)

    monkeypatch.setattr(readiness, "choose", planned)
    runner = Runner()
    assert prove(runner, RNG) == ALL - 2
    assert "hopper_fp32" not in runner.kernels and "naive" in runner.kernels


def test_one_that_does_not_compile_keeps_no_other_from_its_proof() -> None:
    class Uncompiled(Runner):
        def compile_ahead(self, products: Iterable[tuple[Choice, Problem]]) -> None:
            if any(choice.kernel.name == "naive" for choice, _ in products):
                raise KernelUnavailable("naive.cu does not compile here.")

    runner = Uncompiled(failing("naive", "float32", KernelUnavailable("naive.cu does not compile here.")))
    assert prove(runner, RNG) == ALL - 2
    assert {each.kernel for each in runner.device.left_out} == {"naive"}


@pytest.mark.parametrize("error", [DeviceFault(), OperandDamaged(), OutOfDeviceMemory(), MemoryError()])
def test_a_device_that_fails_does_not_serve(error: MatmulError | MemoryError) -> None:
    runner = Runner(failing("naive", "float32", error))
    with pytest.raises(type(error)):
        prove(runner, RNG)
    assert runner.device.left_out == ()


def test_without_any_kernel_a_worker_does_not_start() -> None:
    def met(name: str, problem: Problem) -> None:
        raise KernelUnavailable(f"NVRTC is missing, says {name}.")

    with pytest.raises(NotReady, match=r"No kernel runs on Simulated H200.*NVRTC is missing, says naive"):
        prove(Runner(met), RNG)


def test_what_a_composed_kernel_is_made_of_is_proved_before_it() -> None:
    """It then takes another in place of one that is left out."""
    runner = Runner()
    prove(runner, RNG)
    of_composed = [place for place, name in enumerate(runner.proved) if name == "complex_as_real"]
    assert of_composed == list(range(ALL - 4, ALL))
    composed = Choice(BY_NAME["complex_as_real"], {"emulated": 0}, "")
    first = real_choice(composed, COMPLEX, H200.traits).kernel.name
    traits = replace(H200.traits, left_out=(LeftOut(first, "float32", "It does not compile."),))
    assert real_choice(composed, COMPLEX, traits).kernel.name != first


def test_an_emulated_way_is_refused_where_its_kernel_is_left_out() -> None:
    composed, emulator = BY_NAME["complex_as_real"], "fp32_emulated"
    traits = replace(H200.traits, left_out=(LeftOut(emulator, "float32", "It does not compile."),))
    assert composed.misfit({"emulated": 1}, "complex64", H200.traits) is None
    assert composed.misfit({"emulated": 1}, "complex64", traits) == "It does not compile."
    assert composed.misfit({"emulated": 1}, "complex128", traits) is None


def test_choices_are_warmed_up_where_nothing_multiplies_such_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_kernel(*_: Any) -> Choice:
        raise NoKernelError("no kernel is there")

    monkeypatch.setattr(ahead, "choose_from", no_kernel)
    assert ahead.warm_up(replace(H200.traits, name="NVIDIA H200")) > 0
