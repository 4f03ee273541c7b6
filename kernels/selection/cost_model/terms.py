"""What the time of a product in a kernel is made of: physical quantities, each of which takes some time for one unit.

How long a unit of each takes on a device is fitted to what was measured there (`model.py`). Of a kernel of ours the
launch is known: its tiles, waves of blocks and passes over memory. Of a library's only what any kernel has to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from kernels.model.arrange import blocks_at_once
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel, Kernel
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, Problem
from kernels.model.padding import pitch_bytes
from kernels.model.triangle import MULTIPROCESSORS
from kernels.selection.cost_model.library import library_terms
from kernels.selection.cost_model.sizes import RUN_BYTES, megabytes

PASSES = 4  # at most, of a kernel
WAVES = 4  # place of the waves among the terms of a kernel of ours
Terms = tuple[float, ...]
Config = tuple[tuple[str, int], ...]


def terms_of(kernel: Kernel, config: TileConfig, problem: Problem, multiprocessors: int) -> Terms:
    """The terms of a kernel's time, in units of about a microsecond each and in a fixed order. `config` must be
    complete; symmetry is ignored."""
    count = multiprocessors or MULTIPROCESSORS
    if isinstance(kernel, CudaKernel):
        return tuple(_of_ours(kernel, config, problem, count))
    return library_terms(problem, count)


def _of_ours(kernel: CudaKernel, config: TileConfig, problem: Problem, multiprocessors: int) -> Iterator[float]:
    inner = kernel.inner(problem, config)
    launch = kernel.arrange(inner, config)
    a, b, c = megabytes(problem)
    room = multiprocessors * launch.each
    blocks = launch.grid[0] * launch.grid[1] * launch.grid[2] * launch.stacked
    waves, share, depth = -(-blocks // room), blocks / multiprocessors, problem.k * 1e-2
    clocks = kernel.clocks(problem, config, multiprocessors) if kernel.clocks else 0.0
    clocks = clocks * 1e-3 if isfinite(clocks) else 0.0
    yield from (1.0, a + b, c, clocks)
    yield from (waves * depth, share * depth, share, depth)
    yield from _moved(kernel, config, problem, inner)
    parts = min(launch.parts, -(-room // (blocks % room))) if launch.parts > 1 and blocks % room else 0
    yield from (float(inner != problem), float(parts > 0), float(parts), float(waves))
    yield clocks * _late(launch, blocks, multiprocessors)
    blocks_of_passes = [
        each.launch.grid[0] * 1e-2 for each in (kernel.passes(problem, config) if kernel.passes else ())
    ]
    yield from (blocks_of_passes + [0.0] * PASSES)[:PASSES]


def _late(launch: Launch, blocks: int, multiprocessors: int) -> float:
    """Waves that clusters add, over those that blocks without them would take."""
    if launch.resident:
        return 0.0
    together = blocks_at_once(launch.cluster, multiprocessors) * launch.each
    return -(-blocks // together) / -(-blocks // (multiprocessors * launch.each)) - 1


def _moved(kernel: CudaKernel, config: TileConfig, problem: Problem, inner: Problem) -> Iterator[float]:
    """What is done before and after a kernel that takes tensor maps: whether an operand is transposed, the number of
    matrices that are copied as their rows are not aligned, and the size of all of them."""
    if kernel.boxes is None:
        yield from (0.0, 0.0, 0.0)
        return
    wanted = kernel.boxes(inner, config).wanted or (problem.transpose_a, problem.transpose_b)
    transposed = (wanted[0] != problem.transpose_a, wanted[1] != problem.transpose_b, False)
    unaligned = (_is_cut(problem.k, problem), _is_cut(problem.n, problem), _is_cut(problem.n, problem))
    copied = [is_cut and not is_transposed for is_cut, is_transposed in zip(unaligned, transposed, strict=True)]
    yield float(any(transposed))
    yield float(sum(copied))
    sizes = zip(megabytes(problem), copied, transposed, strict=True)
    yield sum(size for size, is_copied, is_transposed in sizes if is_copied or is_transposed)


def _is_cut(columns: int, problem: Problem) -> bool:
    """Whether rows of so many elements, as they lie on a device, are no whole runs."""
    return pitch_bytes(columns * DTYPES[problem.dtype].itemsize) % RUN_BYTES > 0
