"""The proof that a worker may serve: small products by every kernel it offers, checked against exact sums.

A kernel that cannot run is left out, and the rest serves (docs/decisions/0078). It doubles as warm-up: what a first
product costs (context, compilation, library handles) is paid here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np
import structlog

from jobs.errors import KernelUnavailable, MatmulError
from jobs.formats.elements import STORAGE_DTYPES, Array
from jobs.matrices.digest import digest_of
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, ConfigError
from kernels.model.kernel import DeviceClass, DeviceTraits, Kernel
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from kernels.model.scales import block_of, scale_shape
from kernels.selection.candidates import Choice, NoKernelError
from kernels.selection.choose import choose
from worker.check.elements import as_exact, narrow, widen
from worker.check.verify import check
from worker.device.operands import HostOperand
from worker.device.runner import Runner, gathered
from worker.device.scaled import ScaledOperand

# Rows, columns, depth: no multiples of any tile. The second is large enough for a GPU to check it itself, and on a CPU
# for BLAS to cut it up: there exact sums of more elements would be most of a worker's start.
SHAPES: Mapping[DeviceClass, tuple[tuple[int, int, int], ...]] = {
    "cpu": ((33, 17, 29), (257, 131, 60)),
    "gpu": ((33, 17, 29), (601, 499, 60)),
}
LARGEST = 2  # sums of at most 60 products of such integers are below 2⁸, so exact in every element type

log = structlog.get_logger(__name__)


class NotReady(MatmulError):
    """A small product came out wrong, so this worker does not start."""

    type = "not_ready"


def prove(runner: Runner, rng: np.random.Generator) -> int:
    """Computes and checks small products by each kernel for each element type, and returns their number. A kernel that
    cannot run is left out of what the runner offers. A wrong product makes the whole device suspect.

    Raises NotReady, OperandDamaged, OutOfDeviceMemory, DeviceFault.
    """
    count = 0
    for kernels in _composed_last(runner.kernels):
        planned = [(part, _planned(runner, *part)) for part in _runnable(kernels, runner.device.traits)]
        with suppress(KernelUnavailable):  # whose program it is meets it again
            runner.compile_ahead(product for _, products in planned for product in products)
        for part, products in planned:
            with _left_out_where_it_fails(runner, *part):
                for choice, problem in products:
                    _prove_one(runner, choice, problem, rng)
                count += len(products)
    if not count:
        reason = next((each.reason for each in runner.device.left_out), "The catalogue has none for it.")
        raise NotReady(f"No kernel runs on {runner.device.name}, so this worker does not start. {reason}")
    return count


def _composed_last(names: Iterable[str]) -> tuple[list[Kernel], list[Kernel]]:
    """Splits the kernels in two, so that those composed of others come when it is known which of the others run."""
    of_kind: tuple[list[Kernel], list[Kernel]] = [], []
    for kernel in (BY_NAME[name] for name in names):
        of_kind[isinstance(kernel, ComposedKernel)].append(kernel)
    return of_kind


def _runnable(kernels: Iterable[Kernel], traits: DeviceTraits) -> list[tuple[Kernel, DTypeName]]:
    pairs = ((kernel, dtype) for kernel in kernels for dtype in kernel.dtypes)
    return [(kernel, dtype) for kernel, dtype in pairs if kernel.unsupported_because(traits, dtype) is None]


def _planned(runner: Runner, kernel: Kernel, dtype: DTypeName) -> list[tuple[Choice, Problem]]:
    """The products that prove a kernel; none if they cannot even be planned."""
    planned: list[tuple[Choice, Problem]] = []
    with _left_out_where_it_fails(runner, kernel, dtype):
        products = small_products(kernel, dtype, runner.device.traits)
        for each in products:
            runner.is_compiled(*each)  # which lists its programs
        planned = products
    return planned


def small_products(kernel: Kernel, dtype: DTypeName, traits: DeviceTraits) -> list[tuple[Choice, Problem]]:
    """The products that prove a kernel on such a device: with block scales if it takes no other operands. Raises
    NoKernelError, ConfigError."""
    shapes = SHAPES[traits.device_class]
    problems = [Problem(*shape, dtype, scale_columns=1 if kernel.needs_scales else 0) for shape in shapes]
    return [(choose(kernel.name, NO_CONFIG, each, kernel.accuracy[dtype], traits), each) for each in problems]


@contextmanager
def _left_out_where_it_fails(runner: Runner, kernel: Kernel, dtype: DTypeName) -> Iterator[None]:
    """Leaves a kernel out for a fault of its own: a missing library, a source that does not compile, a config that no
    such device takes. Device faults and a lack of memory are raised."""
    try:
        yield
        return
    except KernelUnavailable as error:
        reason = error.detail
    except (NoKernelError, ConfigError) as error:
        reason = str(error)
    except (MatmulError, MemoryError):
        raise
    except Exception as error:
        log.exception("a kernel met an error that it does not know", kernel=kernel.name, dtype=dtype)
        reason = f"It met an unknown error ({type(error).__name__}); the worker's log says more."
    log.warning("a kernel cannot run here and is left out", kernel=kernel.name, dtype=dtype, reason=reason)
    runner.leave_out(kernel.name, dtype, f"{kernel.name} could not multiply {dtype} when its worker started: {reason}")


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
    """The operand with a power of two as the scale of each line. k is one block deep, so products stay exact."""
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
