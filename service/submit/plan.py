"""Checks whether a product can be computed as requested, before anything is stored or queued. Uses neither store nor
workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from jobs.errors import InvalidConfig, InvalidMatrix, InvalidRequest, ShapeMismatch, UnsupportedDType
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.entry.config import ConfigError
from kernels.model.entry.sentences import no_groups, wrong_scales
from kernels.model.kernel import Kernel
from kernels.model.numerics import DTYPES, OPERAND_FLAGS, AccuracyName, DTypeName, Problem, loosest
from kernels.model.outputs import Delivered, delivered_of, multiplied_as
from kernels.selection.demands import NOTHING, Demand
from service.bodies.options import MatmulOptions
from service.bodies.sizes import in_units
from service.submit.demands import demand_of, demanded, field_of
from service.submit.groups import grouped
from service.submit.operand_type import OperandType
from service.submit.output import check_output, check_proven, not_multiplied
from service.submit.scales import NO_SCALES, check_scales

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ProductPlan:
    """A product that some kernel of the catalogue computes."""

    problem: Problem
    delivered: Delivered
    operand_dtype: DTypeName  # of A and B as received; the problem's type may be wider
    accuracy: AccuracyName
    kernels: tuple[Kernel, ...]  # those that may run it: the requested one, or all suitable ones
    demand: Demand = NOTHING


def make_plan(
    options: MatmulOptions,
    a: OperandType,
    b: OperandType,
    *,
    max_product_bytes: int,
    has_c: bool = False,
    scales: Mapping[str, OperandType] = NO_SCALES,
) -> ProductPlan:
    """The plan of a product. `scales`: those received so far. Raises InvalidRequest and its subclasses, each with a
    sentence and, if possible, the field.
    """
    dtype = _common_dtype(options, a, b)
    check_output(options, dtype)
    problem = _problem(options, multiplied_as(dtype, options.output_dtype), a.shape, b.shape)
    problem = replace(problem, scale_columns=check_scales(options, a, b, scales))
    if options.group_sizes is not None:
        problem = grouped(problem, options.group_sizes, a.shape, b.shape)
    delivered = delivered_of(problem, options.output_dtype)
    if (size := max(delivered.bytes, problem.product_bytes)) > max_product_bytes:
        raise InvalidMatrix(
            f"The product would have {in_units(size)}; the largest kept here has {in_units(max_product_bytes)}."
        )
    accuracy = options.accuracy or _default_accuracy(options.kernel, problem.dtype)
    if not (demand := demand_of(options, has_c=has_c)):
        return ProductPlan(problem, delivered, dtype, accuracy, _kernels(options, problem, accuracy))
    check_proven(options, problem, field_of(demand))
    any_class = demand.tolerance is not None and options.kernel == AUTO
    kernels = demanded(_kernels(options, problem, None if any_class else accuracy), options, demand, problem)
    if demand.tolerance is not None:
        accuracy = loosest(kernel.accuracy[problem.dtype] for kernel in kernels)
    return ProductPlan(problem, delivered, dtype, accuracy, kernels, demand)


def _default_accuracy(kernel: str, dtype: DTypeName) -> AccuracyName:
    """The default accuracy of the element type, or the class of a named kernel of reduced precision."""
    named = BY_NAME[kernel].accuracy if kernel != AUTO else {}
    return named.get(dtype, DTYPES[dtype].accuracy)


def _common_dtype(options: MatmulOptions, a: OperandType, b: OperandType) -> DTypeName:
    if a.dtype != b.dtype:
        raise UnsupportedDType(
            f"a is {a.dtype} but b is {b.dtype}; both operands must have the same element type.", field="b"
        )
    if options.dtype not in (None, a.dtype) and not (a.adopts_dtype and b.adopts_dtype):
        raise UnsupportedDType(f"dtype is {options.dtype} but the operands are {a.dtype}; leave it out.", field="dtype")
    return a.dtype


def _problem(options: MatmulOptions, dtype: DTypeName, a: tuple[int, ...], b: tuple[int, ...]) -> Problem:
    m, k = _sizes("a", a, options.transpose_a)
    inner, n = _sizes("b", b, options.transpose_b)
    if k != inner:
        raise ShapeMismatch(
            f"{_operand_in_words('a', a, options.transpose_a)} but {_operand_in_words('b', b, options.transpose_b)}: "
            "a's columns must equal b's rows.",
            field="b",
        )
    for name, size in (("a has no rows", m), ("b has no columns", n)):
        if size == 0:
            raise ShapeMismatch(f"The product would be empty: {name}.", field=name[0])
    _check_batch(a, b)
    return Problem.of_shapes(a, b, dtype, **{name: getattr(options, name) for name in OPERAND_FLAGS})


def _sizes(name: str, shape: tuple[int, ...], transposed: bool) -> tuple[int, int]:
    """Rows and columns as multiplied, after a transposition."""
    if len(shape) not in (2, 3):
        raise InvalidMatrix(
            f"{name} is {len(shape)}-D; an operand has rows and columns, as [[1, 2], [3, 4]] has, and may have a "
            "batch axis before them.",
            field=name,
        )
    rows, columns = shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


def _check_batch(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    sizes = {shape[0] for shape in (a, b) if len(shape) == 3}
    if len(sizes) > 1:
        raise ShapeMismatch(
            f"a is a batch of {a[0]} but b is a batch of {b[0]}; both must have as many matrices.", field="b"
        )
    if 0 in sizes:
        raise ShapeMismatch("The product would be empty: the batch has no matrices.", field="a" if len(a) == 3 else "b")


def _operand_in_words(name: str, shape: tuple[int, ...], transposed: bool) -> str:
    """Describes an operand, as in `a is 3×4`, or `a transposed is 4×3`."""
    rows, columns = _sizes(name, shape, transposed)
    return f"{name}{' transposed' if transposed else ''} is {rows}×{columns}"


def _kernels(options: MatmulOptions, problem: Problem, accuracy: AccuracyName | None) -> tuple[Kernel, ...]:
    """The suitable kernels. `accuracy`: None for all classes."""
    dtype = problem.dtype
    if options.kernel != AUTO:
        assert accuracy is not None, "a kernel has a class"
        return (_named(BY_NAME[options.kernel], problem, accuracy, options.config),)
    if options.config:
        raise InvalidConfig("A config belongs to one kernel; name that kernel, or leave config out.", field="config")
    fit = tuple(
        kernel
        for kernel in CATALOG
        if dtype in kernel.accuracy
        and kernel.takes_scales_of(problem)
        and kernel.takes_groups_of(problem)
        and (accuracy is None or kernel.takes(dtype, accuracy))
    )
    if not fit:
        offered = dict.fromkeys(kernel.accuracy[dtype] for kernel in CATALOG if dtype in kernel.accuracy)
        raise InvalidRequest(
            f"No kernel multiplies {dtype} operands to {accuracy} accuracy; there are: {', '.join(offered)}.",
            field="accuracy",
        )
    return fit


def _named(kernel: Kernel, problem: Problem, accuracy: AccuracyName, config: Mapping[str, int]) -> Kernel:
    dtype = problem.dtype
    if dtype not in kernel.dtypes:
        raise not_multiplied(kernel, dtype)
    if not kernel.takes(dtype, accuracy):
        offered = kernel.accuracy[dtype]
        raise InvalidRequest(
            f"{kernel.name} multiplies {dtype} operands to {offered} accuracy, not to {accuracy}.", field="accuracy"
        )
    if not kernel.takes_scales_of(problem):
        raise InvalidRequest(wrong_scales(kernel.name, needed=kernel.needs_scales), field="kernel")
    if not kernel.takes_groups_of(problem):
        raise InvalidRequest(no_groups(kernel.name, dtype), field="kernel")
    try:
        kernel.resolve_config(config, problem)
    except ConfigError as error:
        raise InvalidConfig(str(error), field="config") from None
    return kernel
