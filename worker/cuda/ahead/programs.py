"""The programs that a worker on a GPU of some architecture is likely to load, and that are worth compiling ahead of
time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from kernels.model.architectures import ARCHITECTURES
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.numerics import DTYPE_NAMES, DTYPES, REAL_NAMES
from kernels.selection.ahead import likely_products
from kernels.selection.tuned import TABLES
from worker.cuda.programs import programs_of
from worker.cuda.sources import (
    TRANSPOSE_TILES,
    Program,
    benchmark_program,
    complex_check_program,
    complex_finite_program,
    complex_layout_program,
    digest_program,
    direct_program,
    epilogue_check_program,
    epilogue_program,
    fingerprint_program,
    gather_program,
    random_program,
    recheck_program,
    results_program,
    sketch_program,
    transpose_program,
)

AS_STORED = (False, False)
TRANSPOSES = ((False, True), (True, False), (True, True))


def capability_of(arch: str) -> tuple[int, int]:
    """`sm_90` is (9, 0). Raises ValueError."""
    found = re.fullmatch(r"sm_(\d+)(\d)", arch)
    if found is None:
        raise ValueError(f"{arch!r} is no architecture; one is named as in sm_90.")
    return int(found[1]), int(found[2])


def traits_of(arch: str) -> DeviceTraits:
    """Traits of a GPU model with that architecture, preferably one that was measured. Raises ValueError."""
    capability = capability_of(arch)
    nearest = max(
        (known for known in ARCHITECTURES.values() if known.compute_capability <= capability),
        key=lambda known: known.compute_capability,
        default=None,
    )
    if nearest is None:
        raise ValueError(f"{arch} is older than {next(iter(ARCHITECTURES))}, the oldest that kernels are for.")
    traits = replace(nearest.traits, compute_capability=capability)
    measured = next((table for table in TABLES if table.compute_capability == capability), None)
    if measured is None:
        return traits
    return replace(traits, name=measured.device, multiprocessors=measured.multiprocessors or 0)


def programs_ahead(traits: DeviceTraits, kernels: Collection[str] = ()) -> list[Program]:
    """The programs, each once, those needed first at the front. With `kernels`, only what these launch."""
    likely = (
        program
        for choice, problem in likely_products(traits)
        if isinstance(choice.kernel, CudaKernel) and (not kernels or choice.kernel.name in kernels)
        for program in sorted(programs_of(choice.kernel, choice.config, problem, traits), key=repr)
    )
    if kernels:
        return list(dict.fromkeys(likely))
    return list(dict.fromkeys(itertools.chain(_around(), likely, _of_transposed_operands())))


def _around() -> Iterator[Program]:
    """The launch gate, what copies results or transposes, and the check of products of operands as they are stored."""
    yield from (benchmark_program(), digest_program(), results_program())
    for dtype in REAL_NAMES:
        yield from (sketch_program(dtype, AS_STORED), gather_program(dtype), random_program(dtype))
        if not DTYPES[dtype].is_integer:
            yield from (direct_program(dtype, AS_STORED), recheck_program(dtype))
    yield from map(transpose_program, TRANSPOSE_TILES)
    yield from map(fingerprint_program, sorted({DTYPES[dtype].itemsize for dtype in REAL_NAMES}))
    for part in sorted({DTYPES[dtype].real for dtype in DTYPE_NAMES if DTYPES[dtype].is_complex}):
        yield from (complex_layout_program(part), complex_check_program(part), complex_finite_program(part))
    for dtype in sorted({of_operands.product for of_operands in DTYPES.values()}):
        yield from (epilogue_program(dtype), epilogue_check_program(dtype))


def _of_transposed_operands() -> Iterator[Program]:
    """Their checks; what multiplies them is a library's kernel, unless one of ours is asked for."""
    for dtype, transposes in itertools.product(REAL_NAMES, TRANSPOSES):
        yield sketch_program(dtype, transposes)
        if not DTYPES[dtype].is_integer:
            yield direct_program(dtype, transposes)
