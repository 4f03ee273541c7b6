"""Launches one of this project's kernels: its entry describes it, its plan decides, and this module launches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import cupy
from cupy_backends.cuda.api import driver

from jobs.errors import KernelUnavailable
from kernels.catalog import BY_NAME
from kernels.model.entry.config import TileConfig
from kernels.model.fused import FusedEpilogue
from kernels.model.kernel import CudaKernel, DeviceTraits
from kernels.model.kinds.composed import ComposedKernel
from kernels.model.kinds.pairs import inner_problem
from kernels.model.launch_plan import Launch, LaunchPlan
from kernels.model.numerics import DTYPES, Problem
from kernels.model.triangle import whole
from kernels.selection.candidates import Choice
from kernels.selection.composed import real_choice
from worker.cuda.bound_kernel import Addressed, Functions, Layouts, Mapped, bytes_beside
from worker.cuda.calls import Step
from worker.cuda.compile import Compiler
from worker.cuda.complex.arrangement import arranged_bytes
from worker.cuda.memory import DeviceMatrix
from worker.cuda.scaled.arrangement import scaled_bytes
from worker.cuda.sources import copy_program, edge_program_of, kernel_program, mirror_program
from worker.cuda.tensor_maps import ALIGNMENT_BYTES
from worker.cuda.transpose import transpose_function

LARGEST_GRID = 2**31 - 1
LARGEST_COORDINATE = 2**30  # for kernels with 32-bit coordinates; a tile that begins inside may end beyond this
STATIC_SHARED_BYTES = 48 << 10  # a larger block needs an attribute set first
MAX_KEPT = 4096  # prepared kernels
MAX_BOUND = 8  # of one kernel: ways that operands lie in
MAX_DYNAMIC_SHARED_BYTES = 8  # the driver's number for that attribute of a function
REGISTERS = 4  # and for what each thread has, which it knows once the function is loaded


class PreparedKernel:
    """A kernel for one problem and config, planned and compiled: launched as often as wanted. For one thread."""

    def __init__(
        self,
        plan: LaunchPlan,
        functions: Functions,
        main: Any,
        substitute: PreparedKernel | None = None,
        *,
        fused: FusedEpilogue | None = None,
    ) -> None:
        """`substitute` multiplies in its place, where the passes say so on the device."""
        self.plan, self.main, self._fused = plan, main, fused
        self._functions, self._substitute = functions, substitute
        self._bound: OrderedDict[tuple[Layouts, bool], Addressed | Mapped] = OrderedDict()
        self._last: tuple[Layouts, bool, Addressed | Mapped] | None = None

    def launch(
        self,
        a: DeviceMatrix,
        b: DeviceMatrix,
        c: DeviceMatrix,
        gate: int | None = None,
        scales: bytes | None = None,
        others: Callable[[int], tuple[DeviceMatrix, DeviceMatrix]] | None = None,
    ) -> None:
        """Puts the product on the current stream. `gate`: the address of the word that gated functions look at.
        `scales`: the argument of a problem that has some. `others`: given such an address, puts on the stream what
        makes the operands of the kernel behind this one, where they are not these. Raises KernelUnavailable,
        DeviceFault, cupy's OutOfMemoryError."""
        stream = cupy.cuda.get_current_stream().ptr
        workspace = self._bound_for(a, b, c).put((a, b, c), stream, gate, scales)
        if self._substitute is not None:
            a, b = others(workspace.ptr) if others is not None else (a, b)
            self._substitute.launch(a, b, c, workspace.ptr)

    def launch_fused(
        self,
        a: DeviceMatrix,
        b: DeviceMatrix,
        d: DeviceMatrix,
        after: Sequence[int],
        scales: bytes | None = None,
        z: DeviceMatrix | None = None,
    ) -> None:
        """Launches a kernel that does the epilogue itself; `after` are its arguments (`EPILOGUE_BYTES`). `z`: the sums
        before an activation, if it has one, in the layout of `d`."""
        bound = self._bound_for(a, b, d)
        assert isinstance(bound, Mapped), "kernels with an epilogue are"
        bound.put((a, b, d), cupy.cuda.get_current_stream().ptr, None, scales, after, z)

    def _bound_for(self, a: DeviceMatrix, b: DeviceMatrix, c: DeviceMatrix) -> Addressed | Mapped:
        reached = not (a.address | b.address | c.address) % ALIGNMENT_BYTES
        if (last := self._last) is not None:
            (of_a, of_b, of_c), last_reached, bound = last
            if a.layout is of_a and b.layout is of_b and c.layout is of_c and reached is last_reached:
                return bound
        layouts = a.layout, b.layout, c.layout
        found = self._bound.pop((layouts, reached), None)
        self._bound[layouts, reached] = bound = found or self._bind(layouts, reached=reached)
        if len(self._bound) > MAX_BOUND:
            self._bound.popitem(last=False)
        self._last = layouts, reached, bound
        return bound

    def _bind(self, layouts: Layouts, *, reached: bool) -> Addressed | Mapped:
        if self.plan.boxes is None:
            return Addressed(self.plan, self._functions, layouts)
        mapped = self.plan, self.plan.boxes, self._functions, layouts
        return Mapped(*mapped, reached=reached, fused=self._fused)


_Key = tuple[str, tuple[tuple[str, int], ...], Problem, FusedEpilogue | None]


class PreparedKernels:
    """A cache of recently used prepared kernels: preparing one takes longer in Python than a small product takes on the
    device. For one thread.
    """

    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._kept: OrderedDict[_Key, PreparedKernel] = OrderedDict()

    def get(
        self, kernel: CudaKernel, config: TileConfig, problem: Problem, fused: FusedEpilogue | None = None
    ) -> PreparedKernel:
        """The prepared kernel, from the cache or prepared now. Raises KernelUnavailable."""
        key = kernel.name, tuple(config.items()), problem, fused
        if (known := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return known
        if fused is None:
            made = prepare(self._compiler, kernel, config, problem)
        else:
            made = _prepared(self._compiler, kernel, config, problem, fused=fused)
        self._kept[key] = made
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        return made


def kernel_bytes(choice: Choice, problem: Problem, traits: DeviceTraits) -> int:
    """Memory of the device that the kernel takes beside the three matrices, known before anything is allocated. That of
    a library is in what is left free in any case."""
    if isinstance(choice.kernel, ComposedKernel):
        inner = real_choice(choice, problem, traits)
        return arranged_bytes(problem) + kernel_bytes(inner, inner_problem(inner.kernel, problem), traits)
    if not isinstance(choice.kernel, CudaKernel):
        return 0 if choice.kernel.needs_scales else scaled_bytes(problem)
    return _kernel_bytes(choice.kernel.name, tuple(choice.config.items()), problem, traits)


@lru_cache(maxsize=MAX_KEPT)
def _kernel_bytes(name: str, config: tuple[tuple[str, int], ...], problem: Problem, traits: DeviceTraits) -> int:
    kernel, own = BY_NAME[name], 0
    assert isinstance(kernel, CudaKernel), "what it is needed for was one"
    fallback = kernel.fallback
    problem = problem if fallback is None else whole(problem)
    if fallback is None or not fallback.always(problem):
        own = bytes_beside(kernel.plan(problem, dict(config)))
    if fallback is None:
        return own
    behind = problem.as_real
    substitute = fallback.kernel.resolve_config(fallback.config, behind, traits)
    return own + bytes_beside(fallback.kernel.plan(behind, substitute))


def prepare(compiler: Compiler, kernel: CudaKernel, config: TileConfig, problem: Problem) -> PreparedKernel:
    """The kernel, or the one that always multiplies such a problem in its place. Two that may multiply do so whole:
    neither knows whether the other left a triangle. Raises KernelUnavailable."""
    fallback = kernel.fallback
    if fallback is None:
        return _prepared(compiler, kernel, config, problem)
    problem = whole(problem)
    always, behind = fallback.always(problem), problem.as_real
    chosen = fallback.kernel.resolve_config(fallback.config, behind, _traits())
    substitute = _prepared(compiler, fallback.kernel, chosen, behind, gated=not always)
    return substitute if always else _prepared(compiler, kernel, config, problem, substitute=substitute)


def _prepared(
    compiler: Compiler,
    kernel: CudaKernel,
    config: TileConfig,
    problem: Problem,
    *,
    gated: bool = False,
    substitute: PreparedKernel | None = None,
    fused: FusedEpilogue | None = None,
) -> PreparedKernel:
    plan = kernel.plan(problem, config, fused)
    program = kernel_program(kernel, config, problem, gated=gated, fused=fused, plan=plan)
    if plan.passes or plan.boxes is not None:
        _check_sizes(kernel, problem)
    main = loaded(compiler.function(program, kernel.name))
    if plan.main.shared_bytes > STATIC_SHARED_BYTES:
        driver.funcSetAttribute(main.ptr, MAX_DYNAMIC_SHARED_BYTES, plan.main.shared_bytes)
    is_transposed, edge = plan.launched != plan.inner, edge_program_of(problem, plan.inner)
    passes = {each.name: loaded(compiler.function(program, each.name)) for each in plan.passes}
    shapes = [(passes[each.name], each.launch) for each in plan.passes if not each.behind]
    shapes += [(main, plan.main), *((passes[each.name], each.launch) for each in plan.passes if each.behind)]
    functions = Functions(
        steps=tuple(_steps(kernel, shapes, is_behind_another=is_transposed)),
        transpose=loaded(transpose_function(compiler, problem.dtype, gated=gated)) if is_transposed else None,
        edge=loaded(compiler.function(edge, "edge")) if edge is not None else None,
        copy=loaded(compiler.function(copy_program(), "copy_rows")) if gated else None,
        mirror=_mirror(compiler, problem) if plan.mirrored else None,
    )
    return PreparedKernel(plan, functions, main, substitute, fused=fused)


def _mirror(compiler: Compiler, problem: Problem) -> Any:
    return loaded(compiler.function(mirror_program(DTYPES[problem.product_dtype].itemsize), "mirror"))


def loaded(function: Any) -> Any:
    """The driver loads a function when it is asked about it. At its first launch it would be loaded then, and the
    device might have to be waited for."""
    driver.funcGetAttribute(REGISTERS, function.ptr)
    return function


def _steps(kernel: CudaKernel, shapes: list[tuple[Any, Launch]], *, is_behind_another: bool) -> Iterator[Step]:
    """The first follows nothing that it may overlap, unless a transposition comes before it."""
    multiprocessors = cupy.cuda.Device().attributes["MultiProcessorCount"]
    for number, (function, shape) in enumerate(shapes):
        if shape.grid[0] > LARGEST_GRID:
            raise KernelUnavailable(f"{kernel.name} would need {shape.grid[0]} blocks; take larger tiles.")
        is_dependent = kernel.supports_dependent_launch and (number > 0 or is_behind_another)
        yield Step(function, shape.on(multiprocessors), shape.block, shape.shared_bytes, is_dependent)


def _traits() -> DeviceTraits:
    """The traits of the current device by which a config is chosen."""
    device = cupy.cuda.Device()
    major, minor = divmod(int(device.compute_capability), 10)
    return DeviceTraits("gpu", (major, minor), multiprocessors=device.attributes["MultiProcessorCount"])


def _check_sizes(kernel: CudaKernel, problem: Problem) -> None:
    if max(problem.m, problem.n, problem.k, problem.batch) > LARGEST_COORDINATE:
        raise KernelUnavailable(f"{kernel.name} takes sizes up to {LARGEST_COORDINATE}; use another kernel.")
