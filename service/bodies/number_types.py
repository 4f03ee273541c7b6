"""Chooses the element type of JSON numbers without a `dtype`: float32, or float64 if a number written as an integer
would otherwise be changed (docs/decisions/0039-json-numbers.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn

import numpy as np

from jobs.errors import InvalidMatrix, UnsupportedDType
from jobs.formats.factors import as_number
from kernels.catalog import BY_NAME, CATALOG
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem, meets
from service.bodies.nested_lists import Numbers
from service.bodies.options import MatmulOptions
from service.bodies.reader import NEEDED

AUTO = "auto"
USUAL: DTypeName = "float32"
WIDER: DTypeName = "float64"
LARGEST: dict[DTypeName, float] = {USUAL: 2.0**24, WIDER: 2.0**53}  # up to here the type has every integer
EMULATE = [
    kernel for kernel in CATALOG if isinstance(kernel, CudaKernel) and kernel.emulated_with and kernel.takes(USUAL)
]


def with_dtype(options: MatmulOptions, lists: Mapping[str, Numbers], *, others: bool) -> MatmulOptions:
    """The options, with a `dtype` if integers in `lists` (operands by name) need one. `others`: whether there are
    operands of other kinds. Raises InvalidMatrix or UnsupportedDType if no type is suitable.
    """
    if options.dtype is not None or not lists or _may_round(options):
        return options
    if not lists.keys() & {*NEEDED}:  # only C or a bias, whose type follows from the other operands
        for numbers in lists.values():
            if (index := _changed(numbers, USUAL)) is not None:
                _refuse_element(numbers, index, USUAL)
        return options
    dtype = type_that_holds(lists.values())
    if not others and all(numbers.are_whole for numbers in lists.values()):
        dtype = _type_that_multiplies(options, lists, dtype)
    if dtype == USUAL:
        return options
    if options.kernel != AUTO and dtype not in BY_NAME[options.kernel].dtypes:
        raise UnsupportedDType(
            f"The operands have integers that {USUAL} may not multiply exactly, and {options.kernel} does not take "
            f'{WIDER}; send "dtype": "{USUAL}" to have them rounded.',
            field="dtype",
        )
    return options.model_copy(update={"dtype": dtype})


def type_that_holds(lists: Iterable[Numbers]) -> DTypeName:
    """The first type that represents every integer in the lists. Raises InvalidMatrix if float64 does not."""
    dtype = USUAL
    for numbers in lists:
        if _changed(numbers, USUAL) is None:
            continue
        if (index := _changed(numbers, WIDER)) is not None:
            _refuse_element(numbers, index, WIDER)
        dtype = WIDER
    return dtype


def _changed(numbers: Numbers, dtype: DTypeName) -> int | None:
    """The position of an integer that the type cannot represent; None if there is none."""
    if int not in numbers.types or numbers.largest <= LARGEST[dtype] / 2:
        return None
    values = numbers.values
    with np.errstate(over="ignore"):
        held = values.astype(DTYPES[dtype].name).astype(np.float64)
    for index in np.flatnonzero((held != values) | (np.abs(values) >= LARGEST[WIDER])).tolist():
        number = numbers.elements[index]
        if type(number) is int and (not np.isfinite(held[index]) or int(held[index]) != number):
            return int(index)
    return None


def _type_that_multiplies(options: MatmulOptions, lists: Mapping[str, Numbers], holds: DTypeName) -> DTypeName:
    """The first type in which no sum of the product is rounded, of those that hold all numbers."""
    product = _largest_sum(options, lists["a"], lists["b"])
    total = _with_factors(options, lists, product)
    if holds == USUAL and total <= LARGEST[USUAL] and not _may_emulate(options, lists):
        return USUAL
    # Factors that are not integers cause rounding in any type.
    is_whole = all(abs(factor) < LARGEST[WIDER] and factor == round(factor.real) for factor in _factors(options))
    if (total if is_whole else product) >= LARGEST[WIDER]:
        raise InvalidMatrix(
            f'The operands are integers whose sums may reach 2^53, where float64 begins to round; send "dtype": '
            f'"{WIDER}" to have them rounded, or "int32" for sums modulo 2^32.'
        )
    return WIDER


def _largest_sum(options: MatmulOptions, a: Numbers, b: Numbers) -> float:
    """An upper bound on the sums of magnitudes in A·B. Since float64 rounds to nearest and represents 2^53, a bound
    above 2^53 is never computed as less.
    """
    roughly = a.shape[-2 if options.transpose_a else -1] * a.largest * b.largest
    if roughly <= LARGEST[USUAL]:
        return roughly
    rows = np.abs(a.values).reshape(a.shape).sum(axis=-2 if options.transpose_a else -1).max(initial=0.0)
    columns = np.abs(b.values).reshape(b.shape).sum(axis=-1 if options.transpose_b else -2).max(initial=0.0)
    return float(min(rows * b.largest, a.largest * columns))


def _with_factors(options: MatmulOptions, lists: Mapping[str, Numbers], product: float) -> float:
    """The same of alpha·A·B + beta·C + bias."""
    added, bias = (lists[name].largest if name in lists else 0.0 for name in ("c", "bias"))
    alpha, beta = map(abs, _factors(options))
    return max(product, alpha * product + beta * added + bias)


def _factors(options: MatmulOptions) -> tuple[complex, complex]:
    """alpha and beta."""
    return as_number(options.alpha), as_number(1.0 if options.beta is None else options.beta)


def _accuracy(options: MatmulOptions) -> AccuracyName:
    """The accuracy class that a float32 product must meet."""
    named = {} if options.kernel == AUTO else BY_NAME[options.kernel].accuracy
    return options.accuracy or named.get(USUAL, DTYPES[USUAL].accuracy)


def _may_round(options: MatmulOptions) -> bool:
    """Whether the caller accepts less than float32 accuracy: operands are then rounded whatever their type."""
    return not meets(_accuracy(options), DTYPES[USUAL].accuracy)


def _may_emulate(options: MatmulOptions, lists: Mapping[str, Numbers]) -> bool:
    """Whether `auto` may choose a kernel that emulates float32 products with narrower ones, which rounds."""
    problem = Problem.of_shapes(
        lists["a"].shape, lists["b"].shape, USUAL, transpose_a=options.transpose_a, transpose_b=options.transpose_b
    )
    return options.kernel == AUTO and not all(kernel.fallback and kernel.fallback.always(problem) for kernel in EMULATE)


def _refuse_element(numbers: Numbers, index: int, dtype: DTypeName) -> NoReturn:
    where, digits = numbers.position(index), str(numbers.elements[index])
    shown = digits if len(digits) <= 40 else f"{digits[:40]}…"
    raise InvalidMatrix(
        f'{where} is {shown}, an integer that {dtype} does not hold exactly; send "dtype", as "{WIDER}", to have it '
        "rounded to that.",
        field=where,
    )
