"""A prepared kernel bound to one layout of operands: everything that its launches need is built once, except
addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from kernels.model.edge import edge_launch, is_small
from kernels.model.entry.boxes import Boxes
from kernels.model.fused import FusedEpilogue
from kernels.model.launch_plan import LaunchPlan, Workspace
from kernels.model.numerics import Problem
from worker.cuda.calls import WORD_BYTES, Arguments, Call, Step
from worker.cuda.grouped.table import table_on_device
from worker.cuda.memory import DeviceMatrix, Matrices, counters_of, reserve
from worker.cuda.pitch import Layout, operand_layout, product_layout, stored_shapes
from worker.cuda.tensor_maps import ALIGNMENT_BYTES, MAP_BYTES, TensorMap, aligned_layout, copy_rows, gated_copy
from worker.cuda.transpose import FROM, TO, transposed_layout, transposition

A, B, C = 0, 1, 2  # of the arguments that are addresses of matrices
Z = 3  # of what is given beside these: what an activation is of
GATE = -1
INT32_BYTES = 4
# Of what kernels with an epilogue are given behind their sizes (hopper_epilogue.cuh): addresses of C and the bias, how
# they lie, and the bits of two float32 factors.
EPILOGUE_BYTES = (*[WORD_BYTES] * 6, *[INT32_BYTES] * 2)
SCALES_BYTES = 32  # of what a kernel is told of block scales

Layouts = tuple[Layout, Layout, Layout]


@dataclass(frozen=True, slots=True)
class Functions:
    """The compiled functions for a kernel on one problem."""

    steps: tuple[Step, ...]  # its passes with the kernel itself in between
    transpose: Any | None  # if the kernel needs operands transposed
    edge: Any | None  # multiplies the edge rows and columns that the kernel leaves out
    copy: Any | None  # copies rows, of a gated kernel
    mirror: Any | None = None  # copies one triangle of C to the other, of a kernel that leaves it


class Addressed:
    """A kernel that takes addresses and sizes."""

    def __init__(self, plan: LaunchPlan, functions: Functions, layouts: Layouts) -> None:
        self._workspace, gated = plan.workspace, functions.copy is not None
        words = [np.uint64(0)] * ((plan.workspace is not None) + gated)
        self._groups = table_on_device(plan.groups)
        of_groups = [np.uint64(each.ptr) for each in self._groups]
        self._arguments = Arguments.of((*_numbers(plan.inner, layouts), *of_groups, *words))
        self._word = GATE - gated  # index of the workspace
        self._calls = [step.call(self._arguments) for step in functions.steps]
        self._edge, self._mirror = _edge(plan, functions, layouts), _mirror(plan, functions, layouts[C])

    def put(self, matrices: Matrices, stream: int, gate: int | None, scales: bytes | None = None) -> Any:
        """Puts the product on the stream; the workspace. `gate`: the address of the word that gated functions look at.
        Raises DeviceFault, cupy's OutOfMemoryError."""
        assert scales is None, "kernels that take scales take tensor maps"
        arguments, workspace = self._arguments, _room(self._workspace)
        for index, matrix in enumerate(matrices):
            arguments.set(index, matrix.address)
        if workspace is not None:
            arguments.set(self._word, workspace.ptr)
        if gate is not None:
            arguments.set(GATE, gate)
        for call in self._calls:
            call.put(stream)
        if self._edge is not None:
            _put_edge(self._edge, matrices, stream)
        if self._mirror is not None:
            _put_mirror(self._mirror, matrices[C], stream)
        return workspace


class Mapped:
    """A kernel that takes tensor maps. Operands in the wrong layout are transposed. Matrices whose rows are not aligned
    for TMA are copied to aligned memory and back.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        boxes: Boxes,
        functions: Functions,
        lie: Layouts,
        *,
        reached: bool,
        fused: FusedEpilogue | None = None,
    ) -> None:
        """`reached`: whether all three matrices begin where these copies reach."""
        problem, launched, self._gated = plan.problem, plan.launched, functions.copy is not None
        self._a = _Reach(functions, lie[A], transposed=problem.transpose_a != launched.transpose_a, reached=reached)
        self._b = _Reach(functions, lie[B], transposed=problem.transpose_b != launched.transpose_b, reached=reached)
        self._is_one = problem.symmetric and self._a.is_transposed and self._b.is_transposed
        self._c = lie[C] if reached and _is_aligned(lie[C]) else aligned_layout(lie[C])
        self._is_moved = not (reached and _is_aligned(lie[C]))
        self._back = gated_copy(functions.copy, self._c, lie[C]) if self._is_moved and self._gated else None
        self._workspace = plan.workspace
        self._arguments, self._maps = self._packed(plan, boxes, fused)
        self._calls = [step.call(self._arguments) for step in functions.steps]
        self._edge = _edge(plan, functions, (lie[A], lie[B], self._c))
        self._mirror = _mirror(plan, functions, self._c)

    def _packed(
        self, plan: LaunchPlan, boxes: Boxes, fused: FusedEpilogue | None
    ) -> tuple[Arguments, list[tuple[int, TensorMap]]]:
        """Arguments, and the maps among them, each with the matrix that it is of."""
        launched, thin = plan.launched, boxes.thin
        of = [(A, self._a.to, boxes.a), (B, self._b.to, boxes.b), (C, self._c, boxes.c)]
        items = len(launched.group_sizes) or launched.batch
        sizes = [launched.m, launched.n, launched.k, items, self._a.to.batch, self._b.to.batch]
        if boxes.c_row is not None:
            of.append((C, self._c, boxes.c_row))
        if thin is not None:
            of += [(A, self._a.to, thin.box), (B, self._b.to, thin.box)]
            sizes += [thin.row, thin.column]
        after: tuple[int, ...] = () if fused is None else EPILOGUE_BYTES
        after += (MAP_BYTES,) * (has_z := fused is not None and fused.activation is not None)
        scales = [SCALES_BYTES] if plan.problem.scale_columns else []
        self._groups = table_on_device(plan.groups)
        self._counters = plan.workspace.counters if plan.workspace is not None else 0
        words = [WORD_BYTES] * (len(self._groups) + (plan.workspace is not None) + bool(self._counters) + self._gated)
        arguments = Arguments([*[MAP_BYTES] * len(of), *[INT32_BYTES] * len(sizes), *after, *scales, *words])
        for index, size in enumerate(sizes, start=len(of)):
            arguments.set(index, size)
        self._after = len(of) + len(sizes)  # index of the epilogue's arguments,
        self._scales = self._after + len(after)  # scales,
        self._word = self._scales + len(scales) + len(self._groups)  # and of the workspace
        for index, table in enumerate(self._groups, start=self._scales):
            arguments.set(index, table.ptr)
        to_tf32 = (boxes.to_tf32, boxes.to_tf32, False, False, False)
        maps = [
            (which, TensorMap(place, layout, box, to_tf32=rounds))
            for place, rounds, (which, layout, box) in zip(arguments.places, to_tf32, of, strict=False)
        ]
        if has_z:
            maps.append((Z, TensorMap(arguments.place_of(self._scales - 1), self._c, boxes.c)))
        return arguments, maps

    def put(
        self,
        matrices: Matrices,
        stream: int,
        gate: int | None,
        scales: bytes | None = None,
        after: Sequence[int] = (),
        z: DeviceMatrix | None = None,
    ) -> Any:
        """The same. `scales`: of operands that have some, as the kernel takes them; `after`: what an epilogue is given,
        and `z` where it has an activation."""
        assert z is None or not self._is_moved, "such a product begins its rows where copies reach"
        a, b, c = matrices
        for index, word in enumerate(after, start=self._after):
            self._arguments.set(index, word)
        to = reserve(self._c) if self._is_moved else c
        of_a = self._a.bring(a, stream, gate)
        reached = of_a, of_a if self._is_one else self._b.bring(b, stream, gate), to, z or to
        for which, tensor_map in self._maps:
            tensor_map.point_to(reached[which].address)
        workspace = _room(self._workspace)
        if workspace is not None:
            self._arguments.set(self._word, workspace.ptr)
        if self._counters:
            self._arguments.set(self._word + 1, counters_of(stream, self._counters))
        if gate is not None:
            self._arguments.set(GATE, gate)
        if scales is not None:
            self._arguments.write(self._scales, scales)
        for call in self._calls:
            call.put(stream)
        if self._edge is not None:
            _put_edge(self._edge, (a, b, to), stream)
        if self._mirror is not None:
            _put_mirror(self._mirror, to, stream)
        if self._is_moved:
            move(self._back, to, c, stream, gate)
        return workspace


def bytes_beside(plan: LaunchPlan) -> int:
    """Memory that a product takes beside its matrices, at most: the workspace, and copies of matrices that do not lie
    as the kernel reads or writes them."""
    workspace = 0 if plan.workspace is None else plan.workspace.bytes
    if plan.boxes is None:
        return workspace
    problem, launched = plan.problem, plan.launched
    a, b = (operand_layout(problem.dtype, shape) for shape in stored_shapes(problem))
    is_transposed = (problem.transpose_a != launched.transpose_a, problem.transpose_b != launched.transpose_b, False)
    copies = map(_copy_bytes, (a, b, product_layout(problem)), is_transposed)
    return workspace + sum(copies)


def _copy_bytes(at: Layout, is_transposed: bool) -> int:
    if is_transposed:
        return aligned_layout(transposed_layout(at, in_groups=False)).bytes
    return 0 if _is_aligned(at) else aligned_layout(at).bytes


class _Reach:
    """Brings an operand to where a kernel reads it: `to` is how it lies there."""

    def __init__(self, functions: Functions, at: Layout, *, transposed: bool, reached: bool) -> None:
        gated = functions.copy is not None
        self._call: Call | None = None
        self._is_moved, self.is_transposed = True, transposed
        if transposed:
            self.to = aligned_layout(transposed_layout(at, in_groups=False))
            self._call = transposition(functions.transpose, at, self.to, gated=gated)
        elif reached and _is_aligned(at):
            self.to, self._is_moved = at, False
        else:
            self.to = aligned_layout(at)
            self._call = gated_copy(functions.copy, at, self.to) if gated else None

    def bring(self, matrix: DeviceMatrix, stream: int, gate: int | None) -> DeviceMatrix:
        if not self._is_moved:
            return matrix
        to = reserve(self.to)
        if self._call is not None or not self.is_transposed:
            move(self._call, matrix, to, stream, gate)
        return to


def move(call: Call | None, matrix: DeviceMatrix, to: DeviceMatrix, stream: int, gate: int | None) -> None:
    """Copies a matrix with a kernel of ours (`call`), or row by row."""
    if call is None:
        copy_rows(matrix, to)
        return
    call.arguments.set(FROM, matrix.address)
    call.arguments.set(TO, to.address)
    if gate is not None:
        call.arguments.set(GATE, gate)
    call.put(stream)


def _is_aligned(layout: Layout) -> bool:
    """Whether a tensor map of such a matrix can be made, where it begins in the right place."""
    return layout.pitch_bytes % ALIGNMENT_BYTES == 0


def _room(need: Workspace | None) -> Any:
    """Memory for a kernel that needs some, else None. It may be let go once the kernel is on the stream: whoever CuPy's
    pool gives it to next is on that stream too."""
    if need is None:
        return None
    memory = cupy.cuda.alloc(max(need.bytes, 1))
    if need.zeroed_bytes:
        memory.memset_async(0, need.zeroed_bytes)
    return memory


def _numbers(problem: Problem, layouts: Sequence[Layout]) -> tuple[np.generic, ...]:
    """The arguments in the order of every kernel's signature; addresses are set later."""
    return (
        *(np.uint64(0) for _ in layouts),
        *(np.int64(size) for size in (problem.m, problem.n, problem.k)),
        *(np.int64(layout.pitch) for layout in layouts),
        *(np.int64(layout.stride) for layout in layouts),
        np.int64(len(problem.group_sizes) or problem.batch),
    )


def _edge(plan: LaunchPlan, functions: Functions, layouts: Layouts) -> Call | None:
    """Writes C's rows and columns outside of the kernel's part, on multiprocessors that the kernel before it on the
    stream leaves. Neither waits for the other's part of C; whoever waits for it waits for both."""
    if functions.edge is None:
        return None
    problem, inner = plan.problem, plan.inner
    arguments = Arguments.of((*_numbers(problem, layouts), np.int64(inner.m), np.int64(inner.n)))
    launch = edge_launch(problem, inner, narrow=is_small(problem, inner))
    return Call(functions.edge, launch.grid, launch.block, arguments, is_dependent=True)


def _put_edge(edge: Call, matrices: Matrices, stream: int) -> None:
    for index, matrix in enumerate(matrices):
        edge.arguments.set(index, matrix.address)
    edge.put(stream)


def _mirror(plan: LaunchPlan, functions: Functions, c: Layout) -> Call | None:
    """Writes the triangle of C that the kernel before it on the stream leaves. It waits for that by itself."""
    if plan.mirrored is None or functions.mirror is None:
        return None
    launch, numbers = plan.mirrored.launch, (c.rows, c.pitch, plan.mirrored.from_lower)
    arguments = Arguments.of((np.uint64(0), *map(np.int64, numbers)))
    return Call(functions.mirror, launch.grid, launch.block, arguments, is_dependent=True)


def _put_mirror(mirror: Call, c: DeviceMatrix, stream: int) -> None:
    mirror.arguments.set(0, c.address)
    mirror.put(stream)
