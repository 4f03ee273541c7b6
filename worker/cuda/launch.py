"""A kernel of ours on the device: describe, decide, and here at last: launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from jobs.errors import KernelUnavailable
from jobs.formats.elements import Array
from kernels.model.boxes import Boxes
from kernels.model.kernel import CudaKernel, DeviceTraits, Launch, Pass, TileConfig
from kernels.model.numerics import Problem
from worker.cuda.compile import Compiler
from worker.cuda.dependent_launch import launch_dependent
from worker.cuda.edge import Edge, make_edge
from worker.cuda.memory import DeviceMatrix
from worker.cuda.sources import copy_program, kernel_program
from worker.cuda.tensor_maps import copy_rows, copy_rows_if_open, is_aligned, room_for, tensor_map
from worker.cuda.transpose import transpose, transpose_function, transposed_layout

LARGEST_GRID = 2**31 - 1
LARGEST_COORDINATE = 2**30  # of a kernel that counts in 32 bits; a tile that begins inside may end beyond
STATIC_SHARED_BYTES = 48 << 10  # a block that wants more has to be allowed it first
MAX_DYNAMIC_SHARED_BYTES = 8  # the driver's number for that attribute of a function


Matrices = tuple[DeviceMatrix, DeviceMatrix, DeviceMatrix]  # A, B and C
Gate = tuple[np.uint64, ...]  # the address of the word that gated functions look at; nothing for others


@dataclass(frozen=True, slots=True)
class Substitute:
    """The kernel that multiplies in another's place, always or where the other's passes say so on the device."""

    kernel: CudaKernel
    config: TileConfig
    functions: Functions

    def launch(self, problem: Problem, matrices: Matrices, gate: Gate = ()) -> None:
        """Raises KernelUnavailable."""
        _launch(self.functions, self.kernel, self.config, problem, matrices, gate)


@dataclass(frozen=True, slots=True)
class Functions:
    """A kernel's compiled function, those of its passes in their order, and, where it wants operands otherwise than
    they lie, their transposition; where it leaves a edge, its product; copies of rows for a gated launch. Where a
    substitute always multiplies there is nothing else."""

    main: Any = None
    passes: tuple[Any, ...] = ()
    transpose: Any | None = None
    edge: Edge | None = None
    copy: Any | None = None
    substitute: Substitute | None = None

    def multiply_edge(self, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> None:
        """Behind the kernel, as multiprocessors become idle."""
        if self.edge is not None:
            self.edge.multiply(a, b, c)


def prepare(compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem) -> Functions:
    """Raises KernelUnavailable."""
    fallback = kernel.fallback
    if fallback is None:
        return _prepare(compiler, kernel, config, problem)
    always = fallback.always(problem)
    own = Functions() if always else _prepare(compiler, kernel, config, problem)
    chosen = fallback.kernel.resolve_config({}, problem, _traits())
    functions = _prepare(compiler, fallback.kernel, chosen, problem, gated=not always)
    return replace(own, substitute=Substitute(fallback.kernel, chosen, functions))


def _prepare(
    compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem, *, gated: bool = False
) -> Functions:
    program = kernel_program(kernel, config, problem, gated=gated)
    main = compiler.function(program, kernel.name)
    shared_bytes = kernel.launch(problem, config).shared_bytes
    if shared_bytes > STATIC_SHARED_BYTES:
        driver.funcSetAttribute(main.ptr, MAX_DYNAMIC_SHARED_BYTES, shared_bytes)
    passes = kernel.passes(problem, config) if kernel.passes is not None else ()
    inner, launched = kernel.inner(problem, config), kernel.as_launched(problem, config)
    transposing = transpose_function(compiler, problem.dtype, gated=gated) if launched != inner else None
    edge = make_edge(compiler, problem, inner)
    copy = compiler.function(copy_program(), "copy_rows") if gated else None
    return Functions(main, tuple(compiler.function(program, each.name) for each in passes), transposing, edge, copy)


def _traits() -> DeviceTraits:
    """What a config is chosen by, of the current device."""
    device = cupy.cuda.Device()
    major, minor = divmod(int(device.compute_capability), 10)
    return DeviceTraits("gpu", (major, minor), multiprocessors=device.attributes["MultiProcessorCount"])


def launch(
    functions: Functions,
    kernel: CudaKernel,
    config: TileConfig,
    problem: Problem,
    a: DeviceMatrix,
    b: DeviceMatrix,
    c: DeviceMatrix,
) -> None:
    """Puts the product on the current stream. Raises KernelUnavailable."""
    if functions.main is None and functions.substitute is not None:
        functions.substitute.launch(problem, (a, b, c))
    else:
        _launch(functions, kernel, config, problem, (a, b, c))


def _launch(
    functions: Functions,
    kernel: CudaKernel,
    config: TileConfig,
    problem: Problem,
    matrices: Matrices,
    gate: Gate = (),
) -> None:
    if kernel.boxes is not None:
        _launch_with_maps(functions, kernel, config, problem, kernel.boxes(problem, config), matrices, gate)
        return
    arguments, workspace = _arguments(kernel.inner(problem, config), *matrices), _workspace(kernel, config, problem)
    if workspace is not None:
        arguments = (*arguments, np.uint64(workspace.ptr))
    for number, (function, shape) in enumerate(_in_order(functions, kernel, config, problem)):
        _put(function, kernel, shape, arguments, is_dependent=kernel.supports_dependent_launch and number > 0)
    functions.multiply_edge(*matrices)
    if functions.substitute is not None:
        functions.substitute.launch(problem, matrices, (np.uint64(workspace.ptr),))


def _in_order(
    functions: Functions, kernel: CudaKernel, config: TileConfig, problem: Problem
) -> Iterator[tuple[Any, Launch]]:
    """Its passes with the kernel itself in between."""
    passes: tuple[Pass, ...] = ()
    if kernel.passes is not None:
        _check_sizes(kernel, problem)
        passes = kernel.passes(problem, config)
    found = list(zip(functions.passes, passes, strict=True))
    yield from ((function, each.launch) for function, each in found if not each.behind)
    yield functions.main, kernel.launch(problem, config)
    yield from ((function, each.launch) for function, each in found if each.behind)


def _check_sizes(kernel: CudaKernel, problem: Problem) -> None:
    if max(problem.m, problem.n, problem.k, problem.batch) > LARGEST_COORDINATE:
        raise KernelUnavailable(f"{kernel.name} takes sizes up to {LARGEST_COORDINATE}; use another kernel.")


def _put(
    function: Any,
    kernel: CudaKernel,
    shape: Launch,
    arguments: tuple[np.generic | Array, ...],
    *,
    is_dependent: bool = False,
) -> None:
    """`is_dependent`: it may begin while what is before it on the stream ends."""
    if shape.grid[0] > LARGEST_GRID:
        raise KernelUnavailable(f"{kernel.name} would need {shape.grid[0]} blocks; take larger tiles.")
    multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"] if shape.resident else 0
    grid = shape.on(multiprocessors)
    if is_dependent:
        launch_dependent(function, grid, shape.block, arguments, shape.shared_bytes)
    else:
        function(grid, shape.block, arguments, shared_mem=shape.shared_bytes)


def _launch_with_maps(
    functions: Functions,
    kernel: CudaKernel,
    config: TileConfig,
    problem: Problem,
    boxes: Boxes,
    matrices: Matrices,
    gate: Gate,
) -> None:
    """Operands that do not lie as the kernel wants them are transposed. Rows that begin where bulk tensor copies do not
    reach are copied to where they do, before and after."""
    _check_sizes(kernel, problem)
    c = matrices[2] if is_aligned(matrices[2]) else room_for(matrices[2].layout)
    launched = kernel.as_launched(problem, config)
    a = _within_reach(matrices[0], functions, gate, transposed=problem.transpose_a != launched.transpose_a)
    b = _within_reach(matrices[1], functions, gate, transposed=problem.transpose_b != launched.transpose_b)
    of_a, of_b = tensor_map(a, boxes.a, to_tf32=boxes.to_tf32), tensor_map(b, boxes.b, to_tf32=boxes.to_tf32)
    sizes: tuple[int, ...] = (launched.m, launched.n, launched.k, launched.batch, a.layout.batch, b.layout.batch)
    maps: tuple[Array, ...] = (of_a, of_b, tensor_map(c, boxes.c))
    if (thin := boxes.thin) is not None:
        maps = (*maps, tensor_map(a, thin.box), tensor_map(b, thin.box))
        sizes = (*sizes, thin.row, thin.column)
    arguments: tuple[np.generic | Array, ...] = (*maps, *map(np.int32, sizes))
    workspace = _workspace(kernel, config, problem)
    if workspace is not None:
        arguments = (*arguments, np.uint64(workspace.ptr))
    is_dependent = kernel.supports_dependent_launch and functions.transpose is not None
    _put(functions.main, kernel, kernel.launch(problem, config), (*arguments, *gate), is_dependent=is_dependent)
    functions.multiply_edge(matrices[0], matrices[1], c)
    if c is not matrices[2]:
        _copy_rows(functions, c, matrices[2], gate)


def _within_reach(operand: DeviceMatrix, functions: Functions, gate: Gate, *, transposed: bool) -> DeviceMatrix:
    """The operand, transposed if asked for, with rows where bulk tensor copies reach them."""
    if transposed:
        to = room_for(transposed_layout(operand.layout, in_groups=False))
        transpose(functions.transpose, operand, to, gate)
        return to
    if is_aligned(operand):
        return operand
    moved = room_for(operand.layout)
    _copy_rows(functions, operand, moved, gate)
    return moved


def _copy_rows(functions: Functions, source: DeviceMatrix, to: DeviceMatrix, gate: Gate) -> None:
    if gate:
        copy_rows_if_open(functions.copy, source, to, gate)
    else:
        copy_rows(source, to)


def _workspace(kernel: CudaKernel, config: TileConfig, problem: Problem) -> Any:
    """Memory for a kernel that needs some, else None. It may be let go once the kernel is on the stream: whoever CuPy's
    pool gives it to next is on that stream too."""
    if kernel.workspace is None:
        return None
    need = kernel.workspace(kernel.inner(problem, config), config)
    memory = cupy.cuda.alloc(max(need.bytes, 1))
    if need.zeroed_bytes:
        memory.memset_async(0, need.zeroed_bytes)
    return memory


def _arguments(problem: Problem, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> tuple[np.generic, ...]:
    """In the order of every kernel's signature."""
    matrices = (a, b, c)
    return (
        *(np.uint64(matrix.address) for matrix in matrices),
        *(np.int64(size) for size in (problem.m, problem.n, problem.k)),
        *(np.int64(matrix.layout.pitch) for matrix in matrices),
        *(np.int64(matrix.layout.stride) for matrix in matrices),
        np.int64(problem.batch),
    )
