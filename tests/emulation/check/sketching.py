"""The check's sketch in the emulation, by the plan that the GPU worker follows."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from jobs.formats.elements import Array
from kernels.model.launch_plan import Launch
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.emulation.launches import Layout, Memory, Run, execute
from tests.emulation.programs import Compiled, Emulator
from worker.check.elements import core
from worker.cuda.check.sketch_plan import THREADS, Field, Geometry, plan
from worker.cuda.sources import SKETCH_SOURCE, Program, sketch_program

CHUNK, BYTES_CHUNK = 64, 128  # of elements of a byte: so small that small products have several, of several steps
SETS = 2  # of rows, of a unit: so few that small products have several ranges
BLOCKS = 3
PHILOX = "philox_words"  # beside the sketch in each library
GROUP = 16  # elements that have a multiple of 16 bytes in every type


def compiled(
    emulator: Emulator, dtype: DTypeName, transposed: tuple[bool, bool], *, tensor: bool, chunk: int | None = None
) -> Compiled:
    options = sketch_program(dtype, transposed, chunk or chunk_of(dtype)).options
    source = Path(__file__).with_name("sketch_stages.cu")
    own = (f"-DTENSOR={int(tensor)}", f'-DSKETCH="{SKETCH_SOURCE}"', f"-DOTHER_KERNELS=OTHER_KERNEL({PHILOX})")
    return emulator.compile(Program(source, (*options, *own)), "sketch_given")


def chunk_of(dtype: DTypeName) -> int:
    return BYTES_CHUNK if DTYPES[dtype].itemsize == 1 else CHUNK


def stored_memory(elements: Array, gap: int | None) -> Memory:
    """Rows `gap` elements apart, or at multiples of 16 bytes; matrices a row apart."""
    matrices = core(elements, transposed=False)
    _, rows, columns = matrices.shape
    pitch = -(-columns // GROUP) * GROUP if gap is None else columns + gap
    return Memory(matrices.shape, matrices.dtype, Layout(pitch, (rows + 1) * pitch), matrices.tobytes())


def sketched(
    kernel: Compiled,
    problem: Problem,
    matrices: tuple[Array, Array, Array],
    *,
    width: int,
    seed: tuple[int, int],
    floor2: float = 0.0,
    excluded: Array | None = None,
    wraps: bool = False,
    common: bool = False,
    digested: tuple[bool, bool, bool] = (False, False, False),
    chunk: int | None = None,
    tolerance: tuple[float, float, float] = (1.0, 0.0, 0.0),
    gap: int | None = None,
    order: int = 0,
) -> dict[str, Array]:
    """Every array by its name, after the launch."""
    memories = [stored_memory(each, gap) for each in matrices]
    items_a, items_b = memories[0].shape[0], memories[1].shape[0]
    items_x = max(items_b, 1 if excluded is None else len(excluded))
    geometry = Geometry(
        problem.dtype,
        (problem.transpose_a, problem.transpose_b),
        *(problem.m, problem.n, problem.k, problem.batch, items_a, items_b, items_x, width),
        digested=digested,
        chunk=chunk or chunk_of(problem.dtype),
        sets=SETS,
    )
    planned = plan(geometry)
    mask = np.zeros((items_x, problem.n), np.uint8) if excluded is None else excluded
    pitches = [each.layout.pitch for each in memories]
    strides = [each.layout.stride if each.shape[0] > 1 else 0 for each in memories]
    sizes = (problem.m, problem.n, problem.k, *pitches, *strides, *planned.numbers, int(common), int(wraps))
    numbers = (*sizes, *_signed(*seed), *map(_word, (floor2, *tolerance)))
    state = {field.name: _initial(field) for field in planned.fields}
    arrays = [Memory.flat(state[field.name].reshape(-1), is_result=True) for field in planned.fields]
    launch = Launch((BLOCKS, 1, 1), (THREADS, 1, 1))
    (found,) = execute(kernel, [Run(launch, (*memories, Memory.flat(mask), *arrays), numbers, order)])
    return {field.name: array.reshape(field.shape) for field, array in zip(planned.fields, found, strict=True)}


def _initial(field: Field) -> Array:
    """Zero, or what shows where it is read before it is written."""
    zeros = np.zeros(field.shape, field.dtype)
    return zeros if field.zeroed else zeros + field.dtype(77)


def _signed(*words: int) -> tuple[int, ...]:
    return tuple(int(np.uint64(word).view(np.int64)) for word in words)


def _word(value: float) -> int:
    return int(np.float64(value).view(np.int64))
