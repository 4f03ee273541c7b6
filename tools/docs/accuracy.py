"""What docs/accuracy.md says of accuracy classes, from `kernels/model/accuracy.py` and the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2

from kernels.catalog import CATALOG
from kernels.model.accuracy import CUT_FACTOR, OPERAND_FACTOR, SUM_FACTOR, element_bound
from kernels.model.bounds import BENIGN, proven_bound
from kernels.model.numerics import ACCURACY_NAMES, DTYPE_NAMES, DTYPES, AccuracyName, DTypeName, Problem
from tools.markdown import table

DEPTH = 4096  # at which the bound is shown as a number


def pairs() -> Iterator[tuple[AccuracyName, DTypeName]]:
    """Classes with the element types that some kernel multiplies in them, strict ones first."""
    offered = {(accuracy, dtype) for kernel in CATALOG for dtype, accuracy in kernel.accuracy.items()}
    order: tuple[AccuracyName, ...] = ("exact", "fp64", "fp32", "fp32_normwise", "tf32", "fp16", "bf16", "fp8")
    assert sorted(order) == sorted(ACCURACY_NAMES), "a class is missing here"
    return ((accuracy, dtype) for accuracy in order for dtype in DTYPE_NAMES if (accuracy, dtype) in offered)


def classes() -> str:
    """A row for each class and element type: the roundoffs in its bound, and what they come to."""
    rows = []
    for accuracy, dtype in pairs():
        bound = element_bound(accuracy, dtype, DEPTH)
        size = "‖a‖·‖b‖" if bound.normwise else "(|A|·|B|)ᵢⱼ"
        worth = f"{bound.factors[0] + bound.factors[2]:.1e}" if bound.sum else "0"
        roundoffs = (_power(each) for each in (bound.sum_roundoff, bound.operand, bound.output))
        rows.append((f"`{accuracy}`", dtype, size, *roundoffs, worth))
    columns = (
        "class",
        "operands",
        "s",
        "u of the sum",
        "u of operands",
        "u of the product",
        f"over s, without q, where |AB| = s, k = {DEPTH}",
    )
    return table(columns, rows)


def kernels() -> str:
    """A row for each class and element type: which kernels meet it."""
    rows = []
    for accuracy, dtype in pairs():
        names = [f"`{kernel.name}`" for kernel in CATALOG if kernel.accuracy.get(dtype) == accuracy]
        rows.append((f"`{accuracy}`", dtype, ", ".join(names)))
    return table(("class", "operands", "kernels"), rows)


def proven() -> str:
    """A row for each element type and bound of floats: what is proven of operands whose sums stay in range."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for dtype in DTYPE_NAMES:
        if DTYPES[dtype].is_integer:
            continue
        problem, takers = Problem(1, 1, DEPTH, dtype), [kernel for kernel in CATALOG if dtype in kernel.accuracy]
        bounds = [(proven_bound(kernel, problem, BENIGN, BENIGN), kernel.name) for kernel in takers]
        for bound, name in sorted(bounds, key=lambda each: each[0].normwise or 1.0):
            key = dtype, _figure(bound.componentwise), _figure(bound.normwise)
            rows.setdefault(key, []).append(f"`{name}`")
    listed = [(*key, ", ".join(names)) for key, names in rows.items()]
    return table(("operands", "componentwise", "normwise", "kernels"), listed)


def _figure(bound: float | None) -> str:
    return "–" if bound is None else f"{bound:.1e}"


def factors() -> str:
    """The constants of the bound."""
    return f"c = {SUM_FACTOR:g}, r = {OPERAND_FACTOR:g}, d = {CUT_FACTOR:g}.\n"


def _power(roundoff: float) -> str:
    """The roundoff, such as 11·2⁻²⁴; a dash if nothing is rounded."""
    if not roundoff:
        return "–"
    factor = next(odd for odd in range(1, 64, 2) if log2(roundoff / odd).is_integer())
    power = f"2^{log2(roundoff / factor):.0f}"
    return power if factor == 1 else f"{factor}·{power}"
