"""What is planned once for products that are alike, beside the same worked out step by step, without a GPU.

`python -m tests.support.played.planned_once` prints what differs as JSON. CuPy is replaced, so this is for a process of
its own.
"""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from typing import Any
from unittest.mock import MagicMock

from jobs.matrices.digest import PART, part_begin, part_count, part_of
from kernels.model.numerics import DTypeName
from kernels.selection.candidates import Choice
from tests.support.played.driver import install

Step = tuple[int, int, int, int]
SIZES = (1, PART - 1, PART, 2 * PART, 7 * PART + 5, 8 * PART, 8 * PART + 1, 9 * PART - 1, 40 * PART + 77)


def by_steps(size: int, ends: list[int], parts: int) -> list[Step]:
    """As `_reads`, with the place in the matrix carried on from piece to piece."""
    copied = digested = 0
    steps: list[Step] = []
    for arrived in ends:
        end = size if arrived == size else part_begin(part_of(arrived, size), size)
        while copied < end:
            last = part_begin(part_of(digested, size) + parts, size)
            count = min(end, last) - copied
            is_full = copied + count == last
            steps.append((copied, copied - digested, count, last - digested if is_full else 0))
            copied += count
            digested = last if is_full else digested
    return steps


def reads_that_differ() -> list[Any]:
    from worker.cuda.digests.read_back import _reads

    random, found = Random(7), []
    for size in (*SIZES, *(random.randrange(1, 60 * PART) for _ in range(40))):
        for parts in (1, 2, 4, 5, 64):
            ends = sorted({size, *(random.randrange(1, size + 1) for _ in range(4))})
            planned = [tuple(each) for begin, end in pairwise([0, *ends]) for each in _reads(size, begin, end, parts)]
            if planned != by_steps(size, ends, parts):
                found.append((size, parts, ends))
    assert part_count(SIZES[-1]) == 40
    return found


def sketches_that_differ() -> list[Any]:
    """Their kernel's arguments, word by word; of matrices at other addresses, too."""
    from worker.check.verify import group_width
    from worker.cuda.check.matrices import CheckedMatrices, MatrixOnDevice
    from worker.cuda.check.sketch import SketchOnDevice, digestible
    from worker.cuda.check.sketch_argument import PARAMETER_WORDS
    from worker.cuda.memory import DeviceMatrix
    from worker.cuda.pitch import operand_layout

    found: list[Any] = []
    cases: list[tuple[DTypeName, tuple[int, int, int], bool, int]] = [
        ("float32", (512, 1024, 768), False, 0),
        ("float32", (512, 1024, 768), False, 1 << 20),
        ("float32", (512, 1024, 768), True, 0),
        ("float64", (130, 70, 90), False, 0),
        ("float32", (512, 1024, 768), False, 4),  # rows that begin anywhere: nothing is digested on the way
    ]
    for dtype, (m, n, k), transposed, beyond in cases:
        layouts = [operand_layout(dtype, shape) for shape in ((k, m) if transposed else (m, k), (k, n), (m, n))]
        on_device = [DeviceMatrix(each, MagicMock(ptr=(i + 1 << 32) + beyond)) for i, each in enumerate(layouts)]
        shapes = (1, m, k), (1, k, n), (1, m, n)
        a, b, c = (
            MatrixOnDevice(MagicMock(), each, shape, transposed and not i)
            for i, (each, shape) in enumerate(zip(on_device, shapes, strict=True))
        )
        digested = digestible(matrices := CheckedMatrices(a, b, c), width := group_width(n, k))
        sketch = SketchOnDevice(matrices, width, digested)
        planned, start = sketch._plan, sketch._memory.ptr
        words = [a.address, b.address, c.address, 0, *(start + offset for offset in planned.offsets)]
        words += [m, n, k, a.pitch, b.pitch, c.pitch, a.stride, b.stride, c.stride, *planned.numbers]
        may = not beyond % 16 and dtype == "float32"
        is_right = sketch._words.tolist() == [*words, *[0] * PARAMETER_WORDS]
        if not is_right or digested != (may and not transposed, may, may) or (sketch.digests is not None) != may:
            found.append((dtype, transposed, beyond, digested))
    return found


def fits() -> list[bool]:
    """Of products in turn, on a device with room for some of them."""
    from kernels.catalog import BY_NAME
    from kernels.model.numerics import Problem
    from tests.support.workers.simulated import H200
    from worker.cuda.tiles.tiler import Tiler

    settings = MagicMock(device_memory_bytes=1 << 30)
    tiler = Tiler(settings, lambda: H200, [MagicMock(index=0)], MagicMock())
    choice = Choice(BY_NAME["cublas"], {}, "It was asked for.")
    small, large = (Problem(side, side, side, "float32") for side in (1024, 16384))
    asked = [small, small, large, small, large, large]
    found = [tiler._fits(each, choice, has_epilogue=False) for each in asked]
    middling = Problem(8192, 8192, 8192, "float32")  # three times 256 MiB, and with an epilogue five times
    found += [tiler._fits(middling, choice, has_epilogue=has_epilogue) for has_epilogue in (False, True, False)]
    return found


def main() -> None:
    install()
    print(json.dumps({"reads": reads_that_differ(), "sketches": sketches_that_differ(), "fits": fits()}))


if __name__ == "__main__":
    main()
