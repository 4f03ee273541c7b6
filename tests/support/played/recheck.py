"""What is done with lines of a product that the device computes again, without a GPU.

`python -m tests.support.played.recheck` prints what happened as JSON. CuPy is replaced, so this is for a process of its
own. In the place of the kernel, each launch leaves what a case says.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from kernels.model.numerics import Problem
from tests.support.played.driver import Function, copy_results, install
from worker.check.rounding import rounding_of

PROBLEM = Problem(70, 90, 128, "float16")
ROUNDING = rounding_of(PROBLEM, "tf32")
BATCH, M, N = 2, PROBLEM.m, PROBLEM.n
Left = Sequence[tuple[int, int, int, float]]  # item, listed line, crossed line, ratio


class Case:
    """`launches`: what each leaves, its largest ratio and elements that are left to the host. `ratios`: what the host
    finds of an element, 0.5 where it is not among them."""

    def __init__(self, *launches: tuple[float, Left], ratios: dict[tuple[int, int, int], float] | None = None) -> None:
        self.launches, self.ratios = list(launches), ratios or {}
        self.happened: list[str] = []
        self.places: list[list[int]] = []  # of the arrays' addresses, by launch: which of A, B, C
        self.wanted = True

    def launch(self, _grid: Any, _block: Any, arguments: Any) -> None:
        (parameter,) = arguments
        words = np.frombuffer(parameter.tobytes(), np.uint64)
        self.happened.append("launched")
        self.places.append(words[:3].tolist())
        worst, left = self.launches.pop(0)
        flat = [float_bits(worst), len(left)]
        flat += [word for item, line, other, ratio in left for word in (item, line, other, float_bits(ratio))]
        for address, values in zip(words[7:10].tolist(), (flat[:1], flat[1:2], flat[2 : 2 + 4 * 256]), strict=True):
            held = np.array(values, np.uint64)
            ctypes.memmove(address, held.ctypes.data, held.nbytes)

    def of_element(self, _: Any, item: int, row: int, column: int, __: Any) -> float:
        self.happened.append(f"host: element {item} {row} {column}")
        return self.ratios.get((item, row, column), 0.5)

    def of_lines(self, _: Any, rows: Any, columns: Any, __: Any) -> float:
        self.happened.append(f"host: {rows.sum()} rows, {columns.sum()} columns")
        return 0.7

    def ask(self) -> None:
        if not self.wanted:
            raise InterruptedError


def float_bits(value: float) -> int:
    return int(np.float64(value).view(np.uint64))


def told(case: Case, rows: Any, columns: Any, *, rounding: Any = ROUNDING) -> dict[str, Any]:
    import cupy

    from worker.cuda.check import device_product, recheck
    from worker.cuda.check.matrices import CheckedMatrices
    from worker.cuda.gpu.cores import DeviceCores

    cupy.asarray = lambda array: MagicMock(data=MagicMock(ptr=array.ctypes.data))
    for module in (recheck, device_product):
        setattr(module, "worst_of", case.of_lines)  # noqa: B010  # names that they have imported
    setattr(recheck, "worst_of_element", case.of_element)  # noqa: B010
    device = DeviceCores()
    compiler = MagicMock(function=lambda _, name: Function(copy_results) if name == "copy_results" else case.launch)
    shapes = (BATCH, M, PROBLEM.k), (1, PROBLEM.k, N), (BATCH, M, N)
    lying: Any = CheckedMatrices._make(
        MagicMock(
            shape=shape, dtype="float16", transposed=False, pitch=shape[2], stride=0, address=at, compiler=compiler
        )
        for at, shape in enumerate(shapes, 1)
    )
    with device.request(case.ask) as request:
        product = device_product.DeviceProduct(lying, (MagicMock(), MagicMock()), cores=request)
        try:
            worst: float | str = product.recomputed(rows, columns, rounding)
        except InterruptedError:
            worst = "no longer wanted"
        is_given_up = not request._is_ours
    return {"worst": worst, "happened": case.happened, "places": case.places, "given up": is_given_up}


def mask(lines: int, *places: tuple[int, int]) -> Any:
    made = np.zeros((BATCH, lines), np.bool_)
    for place in places:
        made[place] = True
    return made


def cases() -> dict[str, Any]:
    from worker.cuda.check import recheck_plan

    rows, columns, none = mask(M, (0, 3), (1, 69)), mask(N, (1, 5)), (mask(M), mask(N))
    right: tuple[float, Left] = (0.25, ())
    two: Left = ((0, 3, 8, 1.5), (1, 69, 7, 4.0))
    many: Left = [(0, 3, other, 1.5) for other in range(90)] * 3
    unwanted = Case(right)
    unwanted.wanted = False
    found = {
        "right": told(Case(right, right), rows, columns),
        "nothing asked": told(Case(), *none),
        "left": told(Case((0.25, two)), rows, none[1]),
        "left of columns": told(Case((0.25, ((1, 5, 8, 2.0),))), none[0], columns),
        "wrong": told(Case((0.25, two), ratios={(1, 69, 7): 9.0}), rows, columns),
        "too many": told(Case((0.25, many)), rows, none[1]),
        "normwise": told(Case(), rows, columns, rounding=rounding_of(Problem(1, 1, 1, "float32"), "fp32_normwise")),
        "unwanted": told(unwanted, rows, columns),
    }
    setattr(recheck_plan, "MAX_TERMS", 1)  # noqa: B010
    return found | {"in parts": told(Case(right, (0.5, ())), rows, none[1])}


def main() -> None:
    install()
    print(json.dumps(cases()))


if __name__ == "__main__":
    main()
