"""A kernel of ours on the device: describe (its entry), decide (its plan), and here at last: launch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from jobs.errors import KernelUnavailable
from jobs.formats.elements import Array
from kernels.model.boxes import Boxes
from kernels.model.kernel import CudaKernel, DeviceTraits, TileConfig
from kernels.model.launch_plan import Launch, LaunchPlan, Workspace
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
MAX_KEPT = 4096  # prepared kernels
MAX_DYNAMIC_SHARED_BYTES = 8  # the driver's number for that attribute of a function

Gate = tuple[np.uint64, ...]  # the address of the word that gated functions look at; nothing for others


@dataclass(frozen=True, slots=True)
class Step:
    """A compiled function, and how it is launched on this device."""

    function: Any
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    is_dependent: bool  # it may begin while what is before it on the stream ends

    def put(self, arguments: tuple[np.generic | Array, ...]) -> None:
        """Puts it on the current stream. Raises DeviceFault."""
        if self.is_dependent:
            launch_dependent(self.function, self.grid, self.block, arguments, self.shared_bytes)
        else:
            self.function(self.grid, self.block, arguments, shared_mem=self.shared_bytes)


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """A kernel for one problem and config, planned and compiled: launched as often as wanted."""

    plan: LaunchPlan
    steps: tuple[Step, ...]  # its passes with the kernel itself in between
    main: Any  # the kernel's own function
    transpose: Any | None  # where it wants operands otherwise than they lie
    edge: Edge | None
    copy: Any | None  # copies rows, of a gated kernel
    substitute: PreparedKernel | None  # multiplies in its place, where the passes say so on the device

    def launch(self, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix, gate: Gate = ()) -> None:
        """Puts the product on the current stream. Raises KernelUnavailable, DeviceFault, cupy's OutOfMemoryError."""
        if self.plan.boxes is not None:
            self._launch_with_maps(self.plan.boxes, a, b, c, gate)
            return
        arguments, workspace = _arguments(self.plan.inner, a, b, c), _room(self.plan.workspace)
        if workspace is not None:
            arguments = (*arguments, np.uint64(workspace.ptr))
        for step in self.steps:
            step.put(arguments)
        if self.edge is not None:
            self.edge.multiply(a, b, c)
        if self.substitute is not None:
            self.substitute.launch(a, b, c, (np.uint64(workspace.ptr),))

    def _launch_with_maps(self, boxes: Boxes, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix, gate: Gate) -> None:
        """Operands that do not lie as the kernel wants them are transposed. Rows that begin where bulk tensor copies do
        not reach are copied to where they do, before and after."""
        to, problem, launched = c if is_aligned(c) else room_for(c.layout), self.plan.problem, self.plan.launched
        on_a = self._within_reach(a, gate, transposed=problem.transpose_a != launched.transpose_a)
        on_b = self._within_reach(b, gate, transposed=problem.transpose_b != launched.transpose_b)
        maps: tuple[Array, ...] = (
            tensor_map(on_a, boxes.a, to_tf32=boxes.to_tf32),
            tensor_map(on_b, boxes.b, to_tf32=boxes.to_tf32),
            tensor_map(to, boxes.c),
        )
        extents = launched.m, launched.n, launched.k, launched.batch
        sizes: tuple[int, ...] = (*extents, on_a.layout.batch, on_b.layout.batch)
        if (thin := boxes.thin) is not None:
            maps = (*maps, tensor_map(on_a, thin.box), tensor_map(on_b, thin.box))
            sizes = (*sizes, thin.row, thin.column)
        arguments: tuple[np.generic | Array, ...] = (*maps, *map(np.int32, sizes))
        workspace = _room(self.plan.workspace)
        if workspace is not None:
            arguments = (*arguments, np.uint64(workspace.ptr))
        for step in self.steps:
            step.put((*arguments, *gate))
        if self.edge is not None:
            self.edge.multiply(a, b, to)
        if to is not c:
            self._copy_rows(to, c, gate)

    def _within_reach(self, operand: DeviceMatrix, gate: Gate, *, transposed: bool) -> DeviceMatrix:
        """The operand, transposed if asked for, with rows where bulk tensor copies reach them."""
        if transposed:
            to = room_for(transposed_layout(operand.layout, in_groups=False))
            transpose(self.transpose, operand, to, gate)
            return to
        if is_aligned(operand):
            return operand
        moved = room_for(operand.layout)
        self._copy_rows(operand, moved, gate)
        return moved

    def _copy_rows(self, source: DeviceMatrix, to: DeviceMatrix, gate: Gate) -> None:
        if gate:
            copy_rows_if_open(self.copy, source, to, gate)
        else:
            copy_rows(source, to)


class PreparedKernels:
    """Those used of late: to prepare one takes Python longer than a small product takes the device. For one thread."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._kept: OrderedDict[tuple[str, tuple[tuple[str, int], ...], Problem], PreparedKernel] = OrderedDict()

    def get(self, kernel: CudaKernel, config: TileConfig, problem: Problem) -> PreparedKernel:
        """Kept from before, or prepared now. Raises KernelUnavailable."""
        key = kernel.name, tuple(config.items()), problem
        if (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return known
        made = self._kept[key] = prepare(self._compiler, kernel, config, problem)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return made


def prepare(compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem) -> PreparedKernel:
    """The kernel, or the one that always multiplies such a problem in its place. Raises KernelUnavailable."""
    fallback = kernel.fallback
    if fallback is None:
        return _prepared(compiler, kernel, config, problem)
    always = fallback.always(problem)
    chosen = fallback.kernel.resolve_config({}, problem, _traits())
    substitute = _prepared(compiler, fallback.kernel, chosen, problem, gated=not always)
    return substitute if always else _prepared(compiler, kernel, config, problem, substitute=substitute)


def _prepared(
    compiler: Compiler,
    kernel: CudaKernel,
    config: TileConfig,
    problem: Problem,
    *,
    gated: bool = False,
    substitute: PreparedKernel | None = None,
) -> PreparedKernel:
    plan, program = kernel.plan(problem, config), kernel_program(kernel, config, problem, gated=gated)
    if plan.passes or plan.boxes is not None:
        _check_sizes(kernel, problem)
    main = compiler.function(program, kernel.name)
    if plan.main.shared_bytes > STATIC_SHARED_BYTES:
        driver.funcSetAttribute(main.ptr, MAX_DYNAMIC_SHARED_BYTES, plan.main.shared_bytes)
    is_transposed = plan.launched != plan.inner
    functions = {each.name: compiler.function(program, each.name) for each in plan.passes}
    shapes = [(functions[each.name], each.launch) for each in plan.passes if not each.behind]
    shapes += [(main, plan.main), *((functions[each.name], each.launch) for each in plan.passes if each.behind)]
    return PreparedKernel(
        plan=plan,
        steps=tuple(_steps(kernel, shapes, is_behind_another=is_transposed)),
        main=main,
        transpose=transpose_function(compiler, problem.dtype, gated=gated) if is_transposed else None,
        edge=make_edge(compiler, problem, plan.inner),
        copy=compiler.function(copy_program(), "copy_rows") if gated else None,
        substitute=substitute,
    )


def _steps(kernel: CudaKernel, shapes: list[tuple[Any, Launch]], *, is_behind_another: bool) -> Iterator[Step]:
    """The first follows nothing that it may overlap, unless a transposition comes before it."""
    multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
    for number, (function, shape) in enumerate(shapes):
        if shape.grid[0] > LARGEST_GRID:
            raise KernelUnavailable(f"{kernel.name} would need {shape.grid[0]} blocks; take larger tiles.")
        is_dependent = kernel.supports_dependent_launch and (number > 0 or is_behind_another)
        yield Step(function, shape.on(multiprocessors), shape.block, shape.shared_bytes, is_dependent)


def _traits() -> DeviceTraits:
    """What a config is chosen by, of the current device."""
    device = cupy.cuda.Device()
    major, minor = divmod(int(device.compute_capability), 10)
    return DeviceTraits("gpu", (major, minor), multiprocessors=device.attributes["MultiProcessorCount"])


def _check_sizes(kernel: CudaKernel, problem: Problem) -> None:
    if max(problem.m, problem.n, problem.k, problem.batch) > LARGEST_COORDINATE:
        raise KernelUnavailable(f"{kernel.name} takes sizes up to {LARGEST_COORDINATE}; use another kernel.")


def _room(need: Workspace | None) -> Any:
    """Memory for a kernel that needs some, else None. It may be let go once the kernel is on the stream: whoever CuPy's
    pool gives it to next is on that stream too."""
    if need is None:
        return None
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
