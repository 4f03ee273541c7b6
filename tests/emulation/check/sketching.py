"""The check's sketch in the emulation: its launches in their order, by the plan that the GPU worker follows."""

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
MULTIPROCESSORS = 1
GROUP = 16  # elements that have a multiple of 16 bytes in every type
STAGES = {"columns": 0, "draw": 0, "rows": 1, "project_b": 2, "project_a": 3, "project_c": 4}


def compiled(emulator: Emulator, dtype: DTypeName, transposed: tuple[bool, bool], *, tensor: bool) -> Compiled:
    options = sketch_program(dtype, transposed, chunk_of(dtype)).options
    source = Path(__file__).with_name("sketch_stages.cu")
    own = (f"-DTENSOR={int(tensor)}", f'-DSKETCH="{SKETCH_SOURCE}"')
    return emulator.compile(Program(source, (*options, *own)), "sketch_stage")


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
    gap: int | None = None,
    order: int = 0,
) -> dict[str, Array]:
    """Every array by its name, after the last launch."""
    memories = [stored_memory(each, gap) for each in matrices]
    items_a, items_b = memories[0].shape[0], memories[1].shape[0]
    items_x = max(items_b, 1 if excluded is None else len(excluded))
    geometry = Geometry(
        problem.dtype,
        (problem.transpose_a, problem.transpose_b),
        *(problem.m, problem.n, problem.k, problem.batch, items_a, items_b, items_x, width),
        multiprocessors=MULTIPROCESSORS,
        chunk=chunk_of(problem.dtype),
    )
    planned = plan(geometry)
    mask = np.zeros((items_x, problem.n), np.uint8) if excluded is None else excluded
    pitches = [each.layout.pitch for each in memories]
    strides = [each.layout.stride if each.shape[0] > 1 else 0 for each in memories]
    sizes = (problem.m, problem.n, problem.k, *pitches, *strides, *planned.numbers, int(wraps))
    numbers = (*sizes, *_signed(*seed), *_signed(int(np.float64(floor2).view(np.uint64))))
    state = {field.name: _initial(field) for field in planned.fields}
    for step in planned.steps:
        arrays = [Memory.flat(state[field.name].reshape(-1), is_result=True) for field in planned.fields]
        launch = Launch((step.blocks, 1, step.items), (THREADS, 1, 1))
        run = Run(
            launch, (*memories, Memory.flat(mask), *arrays), (*numbers, STAGES[step.function]), order, step.function
        )
        (found,) = execute(kernel, [run])
        for field, array in zip(planned.fields, found, strict=True):
            state[field.name] = array.reshape(field.shape)
    return state


def _initial(field: Field) -> Array:
    """Zero, or what shows where it is read before it is written."""
    zeros = np.zeros(field.shape, field.dtype)
    return zeros if field.zeroed else zeros + field.dtype(77)


def _signed(*words: int) -> tuple[int, ...]:
    return tuple(int(np.uint64(word).view(np.int64)) for word in words)
