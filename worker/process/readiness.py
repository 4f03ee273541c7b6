"""The proof that a worker may serve: small products by every kernel it offers, checked against exact sums.

It doubles as warm-up: what a first product costs (context, compilation, library handles) is paid here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jobs.errors import MatmulError
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG
from kernels.model.kernel import DeviceTraits
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.scales import block_of, scale_shape
from kernels.selection.candidates import Choice
from kernels.selection.choose import choose
from worker.check.elements import as_exact, narrow, widen
from worker.check.verify import check
from worker.device.operands import HostOperand
from worker.device.runner import Runner, gathered
from worker.device.scaled import ScaledOperand

# Rows, columns, depth: no multiples of any tile. The second is large enough for a GPU to check it itself.
SHAPES = ((33, 17, 29), (601, 499, 60))
LARGEST = 2  # sums of at most 60 products of such integers are below 2⁸, so exact in every element type


class NotReady(MatmulError):
    """A small product came out wrong, so this worker does not start."""

    type = "not_ready"


def prove(runner: Runner, rng: np.random.Generator) -> int:
    """Computes and checks one product by each kernel and element type; how many.

    Raises NotReady, OperandDamaged, DeviceFault.
    """
    products = small_products(runner.kernels, runner.device.traits)
    runner.compile_ahead(products)
    for choice, problem in products:
        _prove_one(runner, choice, problem, rng)
    return len(products)


def small_products(kernels: Sequence[str], traits: DeviceTraits) -> list[tuple[Choice, Problem]]:
    """Those that prove them on such a device: of each element type, with block scales where a kernel takes no other
    operands."""
    problems = [
        (name, Problem(*shape, dtype, scale_columns=1 if BY_NAME[name].needs_scales else 0))
        for name in kernels
        for dtype in BY_NAME[name].dtypes
        if BY_NAME[name].unsupported_because(traits, dtype) is None
        for shape in SHAPES
    ]
    return [(_named(name, problem, traits), problem) for name, problem in problems]


def _named(name: str, problem: Problem, traits: DeviceTraits) -> Choice:
    return choose(name, NO_CONFIG, problem, BY_NAME[name].accuracy[problem.dtype], traits)


def _prove_one(runner: Runner, choice: Choice, problem: Problem, rng: np.random.Generator) -> None:
    dtype = problem.dtype
    accuracy = choice.kernel.accuracy[dtype]
    a, b = _integers(rng, (problem.m, problem.k), dtype), _integers(rng, (problem.k, problem.n), dtype)
    exact = as_exact(a, dtype) @ as_exact(b, dtype)
    sent: tuple[HostOperand, HostOperand] = HostOperand(a), HostOperand(b)
    if problem.scale_columns:
        sent = scaled = _scaled("a", a, rng), _scaled("b", b, rng)
        exact = exact * scaled[0].scales.elements * scaled[1].scales.elements
    with runner.compute(problem, choice, *sent) as product:
        verification = check(problem, accuracy, product.matrices, rng)
        product.verify_operands()
        digest, given = product.digest, gathered(product.chunks())
    c = np.frombuffer(given, STORAGE_DTYPES[problem.product_dtype]).reshape(problem.product_shape)
    is_right = np.array_equal(widen(c, problem.product_dtype), exact) and digest == digest_of(given)
    if not verification.passed or not is_right:
        name, device = choice.kernel.name, runner.device.name
        raise NotReady(f"{name} multiplies {dtype} wrongly on {device}, so this worker does not start.")


def _scaled(operand: str, elements: Array, rng: np.random.Generator) -> ScaledOperand:
    """With a power of two as the scale of each line: k is one block deep, so products stay exact."""
    block = block_of(operand, 1, transposed=False)
    scales = np.exp2(rng.integers(-LARGEST, LARGEST + 1, size=scale_shape(elements.shape, block)))
    return ScaledOperand(HostOperand(elements), HostOperand(scales.astype(np.float32)), block)


def _integers(rng: np.random.Generator, shape: tuple[int, int], dtype: DTypeName) -> Array:
    values = rng.integers(-LARGEST, LARGEST + 1, size=shape)
    if DTYPES[dtype].is_complex:
        values = values + 1j * rng.integers(-LARGEST, LARGEST + 1, size=shape)
    if not DTYPES[dtype].is_integer and DTYPES[dtype].itemsize < 4:
        return narrow(values.astype(np.float32), dtype)
    return values.astype(STORAGE_DTYPES[dtype])
