"""What the time of a product in a kernel is made of: physical quantities, each of which takes some time for one unit.

How long a unit of each takes on a device is fitted to what was measured there (`pace.py`). Of a kernel of ours the
launch is known: its tiles, waves of blocks and passes over memory. Of a library's only what any kernel has to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import isfinite

from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.numerics import DTYPES, Problem
from kernels.model.padding import MAX_PAD, padded_size, pitch_bytes
from kernels.model.triangle import MULTIPROCESSORS

RUN_BYTES = 16  # rows that are no whole runs of so many bytes are copied for TMA, and slow for libraries
LIBRARY_TILES = ((128, 128), (256, 128), (64, 64))  # of which libraries are likely to take one
PASSES = 4  # at most, of a kernel
WAVES, WORK = 4, 3  # places, among the terms of ours and of a library
OF_LIBRARY = 26  # terms
Terms = tuple[float, ...]
Config = tuple[tuple[str, int], ...]


def terms_of(kernel: Kernel, config: TileConfig, problem: Problem, multiprocessors: int) -> Terms:
    """In units that take about a microsecond each, and all of a kernel's in one order. `config` is a full one; the
    product is taken as whole."""
    return _terms(kernel.name, tuple(config.items()), problem, multiprocessors or MULTIPROCESSORS)


@lru_cache(maxsize=65_536)
def _terms(name: str, config: Config, problem: Problem, multiprocessors: int) -> Terms:
    kernel = BY_NAME[name]
    if isinstance(kernel, CudaKernel):
        return tuple(_of_ours(kernel, dict(config), problem, multiprocessors))
    return tuple(_of_library(problem, multiprocessors))


def megabytes(problem: Problem) -> tuple[float, float, float]:
    """Of A, B and C."""
    own, product = (DTYPES[dtype].itemsize * 1e-6 for dtype in (problem.dtype, problem.product_dtype))
    a = problem.m * problem.k * (problem.batch if problem.a_batched else 1)
    b = problem.k * problem.n * (problem.batch if problem.b_batched else 1)
    return a * own, b * own, problem.m * problem.n * problem.batch * product


def _of_ours(kernel: CudaKernel, config: TileConfig, problem: Problem, multiprocessors: int) -> Iterator[float]:
    inner = kernel.inner(problem, config)
    launch = kernel.arrange(inner, config)
    a, b, c = megabytes(problem)
    room = multiprocessors * launch.each
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2] * launch.stacked
    waves, share, depth = -(-blocks // room), blocks / multiprocessors, problem.k * 1e-2
    clocks = kernel.clocks(problem, config, multiprocessors) if kernel.clocks else 0.0
    yield from (1.0, a + b, c)
    yield clocks * 1e-3 if isfinite(clocks) else 0.0
    yield from (waves * depth, share * depth, share, depth)
    yield from _moved(kernel, config, problem, inner)
    yield from (float(inner != problem), float(launch.parts > 1 and blocks % room > 0))
    blocks_of_passes = [
        each.launch.grid[0] * 1e-2 for each in (kernel.passes(problem, config) if kernel.passes else ())
    ]
    yield from (blocks_of_passes + [0.0] * PASSES)[:PASSES]


def _moved(kernel: CudaKernel, config: TileConfig, problem: Problem, inner: Problem) -> Iterator[float]:
    """What is done before and after a kernel that takes tensor maps: whether an operand is transposed, the number of
    matrices that are copied as their rows are not aligned, and the size of all of them."""
    if kernel.boxes is None:
        yield from (0.0, 0.0, 0.0)
        return
    wanted = kernel.boxes(inner, config).wanted or (problem.transpose_a, problem.transpose_b)
    transposed = (wanted[0] != problem.transpose_a, wanted[1] != problem.transpose_b, False)
    unaligned = (_is_cut(problem.k, problem), _is_cut(problem.n, problem), _is_cut(problem.n, problem))
    copied = [cut and not turned for cut, turned in zip(unaligned, transposed, strict=True)]
    yield float(any(transposed))
    yield float(sum(copied))
    sizes = zip(megabytes(problem), copied, transposed, strict=True)
    yield sum(size for size, is_copied, is_transposed in sizes if is_copied or is_transposed)


def _is_cut(columns: int, problem: Problem) -> bool:
    """Whether rows of so many elements, as they lie on a device, are no whole runs."""
    return pitch_bytes(columns * DTYPES[problem.dtype].itemsize) % RUN_BYTES > 0


def _of_library(problem: Problem, multiprocessors: int) -> Iterator[float]:
    a, b, c = megabytes(problem)
    itemsize, depth = DTYPES[problem.dtype].itemsize, problem.k * 1e-2
    work = problem.batch * problem.m * problem.n * problem.k * 1e-8
    yield from (1.0, a + b, c, work, depth)
    for rows, columns in LIBRARY_TILES:
        tiles = -(-problem.m // rows) * -(-problem.n // columns) * problem.batch
        yield from (-(-tiles // multiprocessors) * depth, tiles / multiprocessors * depth, tiles / multiprocessors)
    for extent, size in ((problem.k, a), (problem.n, b + c)):
        for cut, much in ((extent, 0.0), (padded_size(extent, MAX_PAD, itemsize), work)):
            is_cut = cut * itemsize % RUN_BYTES > 0
            yield from (float(is_cut), size * is_cut, much * is_cut)
