"""A product on the GPU, the way a job takes, for tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.models import Measured, Verification
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from tests.support.kernels.products import in_float64, operands
from worker.check.verify import check
from worker.cuda.sources import kernel_program
from worker.device.operands import HostOperand
from worker.device.runner import gathered

if TYPE_CHECKING:
    from worker.cuda.products.on_device import CheckRequest, ProductOnDevice
    from worker.cuda.runner import CudaRunner


def one_of_each_edge(configs: Iterable[TileConfig]) -> list[TileConfig]:
    """Of configs that differ in nothing but the edge, which is not compiled, one: each other one with."""
    alike: dict[tuple[tuple[str, int], ...], list[TileConfig]] = {}
    for config in configs:
        key = tuple((name, value) for name, value in config.items() if name != "edge")
        alike.setdefault(key, []).append(config)
    return [each[index % len(each)] for index, each in enumerate(alike.values())]


def choice(runner: CudaRunner, name: str, problem: Problem, config: TileConfig = NO_CONFIG) -> Choice:
    """As for a job that asked for this kernel. Skips where the device cannot run it."""
    reason = BY_NAME[name].unsupported_because(runner.device.traits, problem.dtype)
    if reason is not None:
        pytest.skip(reason)
    return choose(name, config, problem, BY_NAME[name].accuracy[problem.dtype], runner.device.traits)


def multiply(
    runner: CudaRunner,
    name: str,
    problem: Problem,
    a: Array,
    b: Array,
    rng: np.random.Generator,
    *,
    config: TileConfig = NO_CONFIG,
    ids: tuple[str | None, str | None] = (None, None),
) -> tuple[Array, Verification, Measured]:
    """The product, its check, and its times. Operands with an id stay on the device where the check passes."""
    operands = HostOperand(a, ids[0]), HostOperand(b, ids[1])
    with runner.compute(problem, choice(runner, name, problem, config), *operands) as product:
        verification = check(problem, BY_NAME[name].accuracy[problem.dtype], product.matrices, rng)
        product.verify_operands()
        if verification.passed:
            product.keep_operands()
        given = gathered(product.chunks())
        measured = product.measured
    c = np.frombuffer(given, STORAGE_DTYPES[problem.product_dtype]).reshape(problem.product_shape)
    return c, verification, measured


def before_check(monkeypatch: pytest.MonkeyPatch, damage: Callable[[ProductOnDevice], None]) -> None:
    """Calls `damage` between a product's kernel and what follows it on the stream."""
    from worker.cuda.products.on_device import ProductOnDevice

    follow = ProductOnDevice.follow

    def followed(self: ProductOnDevice, check: CheckRequest | None) -> Any:
        damage(self)
        return follow(self, check)

    monkeypatch.setattr(ProductOnDevice, "follow", followed)


def compile_all(runner: CudaRunner, wanted: Iterable[tuple[str, TileConfig, Problem]]) -> None:
    """Compiles what the device can run of these, with all cores."""
    programs = set()
    for name, config, problem in wanted:
        kernel, traits = BY_NAME[name], runner.device.traits
        if isinstance(kernel, CudaKernel) and kernel.unsupported_because(traits, problem.dtype) is None:
            full = config or kernel.resolve_config(config, problem, traits)
            if kernel.misfit(full, problem.dtype, traits) is None:
                programs.add(kernel_program(kernel, full, problem))
    with ThreadPoolExecutor() as pool:
        list(pool.map(runner.compiler.binary, programs))


def assert_exact_by(
    name: str, runner: CudaRunner, problem: Problem, rng: np.random.Generator, config: TileConfig = NO_CONFIG
) -> None:
    """That kernel's product of small integers, to the last bit."""
    a, b = operands(problem, rng, "integers")
    c, check, _ = multiply(runner, name, problem, a, b, rng, config=config)
    np.testing.assert_array_equal(c, in_float64(problem, a, b)[0].reshape(c.shape), err_msg=f"{problem} {config}")
    assert check.passed, (problem, check)
