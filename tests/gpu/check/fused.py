"""Products of the Hopper kernels with an epilogue of their own, and what may go wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from jobs.errors import OperandDamaged, VerificationFailed
from kernels.model.activations import ActivationName
from kernels.model.numerics import DTypeName, Problem
from tests.gpu.check.test_epilogue import checked, problem_of, sent
from tests.gpu.products import choice
from tests.support.kernels.products import matrix, operands
from worker.device.operands import HostOperand
from worker.device.runner import Epilogue, Product

if TYPE_CHECKING:
    from worker.cuda.epilogue.fused import FusedOnDevice
    from worker.cuda.runner import CudaRunner

ADDENDS = ("bias", "c")
KERNELS: list[tuple[str, DTypeName]] = [
    ("hopper_bf16", "bfloat16"),
    ("hopper_fp16", "float16"),
    ("hopper_tf32", "float32"),
]
# Edges of boxes and of tiles, rows that bulk copies reach and rows that they do not; several groups of the check.
SIZES = [(1000, 900, 303), (640, 1536, 288), (129, 4099, 520)]


@contextmanager
def fused(
    runner: CudaRunner,
    kernel: str,
    problem: Problem,
    given: tuple[HostOperand, HostOperand],
    epilogue: Epilogue | None,
) -> Iterator[Product]:
    """Skips where the device has no such kernel."""
    from worker.cuda.epilogue.fusable import fusable

    chosen = choice(runner, kernel, problem, {"edge": 0} if kernel == "hopper_tf32" else {})
    asked = fusable(problem, chosen, given, epilogue, runner.device.traits)
    assert asked is not None
    for program in asked.programs:
        runner.compiler.binary(program)
    with runner.compute(problem, chosen, *given, epilogue=epilogue) as product:
        assert product.made_by is not None and "rounded once" in product.made_by.why
        yield product


def spoil(monkeypatch: pytest.MonkeyPatch, where: str, bit: int = 0) -> None:
    """From here on each launch goes wrong: in an addend, in what it is asked for, or in what it stored. `bit` is the
    one that is flipped where `where` names bits."""
    from tests.gpu.test_damage import flip_on_device
    from worker.cuda.epilogue.fused import FusedOnDevice

    launch = FusedOnDevice.launch
    flipped: list[str] = []  # once: a product whose launch took too long to be timed is launched again

    def spoilt(self: FusedOnDevice) -> None:
        if where in ADDENDS and not flipped:
            flipped.append(where)
            addend = self.bias if where == "bias" else self.c
            assert addend is not None
            flip_on_device(addend, 8)
        launch(_altered(self, where))
        _damage_stored(self, where, bit)

    monkeypatch.setattr(FusedOnDevice, "launch", spoilt)


def _altered(kernel: FusedOnDevice, where: str) -> FusedOnDevice:
    if where == "alpha":
        return replace(kernel, fusable=replace(kernel.fusable, alpha=1.01))
    if where == "no c":
        return replace(kernel, fusable=replace(kernel.fusable, beta=0.0))
    if where == "activation":
        assert kernel.z is not None
        return replace(kernel, d=kernel.z, z=kernel.d)  # delivers the sums as if they had none
    return kernel


def _damage_stored(kernel: FusedOnDevice, where: str, bit: int) -> None:
    from tests.gpu.test_damage import flip_on_device

    d = kernel.d
    stored = (d, kernel.z) if where.endswith("both") else (d,)
    for each in stored:
        assert each is not None
        if where.startswith("row"):
            (each.memory + 7 * each.layout.pitch_bytes).memset_async(0, each.layout.row_bytes)
        if where.startswith("element"):
            (each.memory + 5 * each.layout.pitch_bytes).memset_async(0x70, each.layout.itemsize)
    if where.startswith("bit"):
        for column in range(d.layout.columns if where == "bits of a row of d" else 1):
            flip_on_device(d, 5 * d.layout.pitch_bytes + column * d.layout.itemsize, bit)


def assert_found(
    runner: CudaRunner,
    kernel: str,
    dtype: DTypeName,
    where: str,
    activation: ActivationName | None,
    rng: np.random.Generator,
) -> None:
    """The check refuses a product with C and a bias that `spoil` spoils: as a damaged operand if an addend was."""
    size = SIZES[0]
    problem = problem_of(size, dtype)
    a, b = operands(problem, rng)
    c, bias = matrix(size[:2], dtype, rng), matrix((1, size[1]), dtype, rng)
    epilogue = Epilogue(1.0, 1.0, sent(c), sent(bias), activation, may_fuse=True)
    error = OperandDamaged if where in ADDENDS else VerificationFailed
    with fused(runner, kernel, problem, (sent(a), sent(b)), epilogue) as product, pytest.raises(error):
        checked(runner, kernel, problem, product, rng)
