"""Launches of a kernel that is changed for a test, and what must hold of them: launches at once, and in a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from jobs.benchmarks.spec import DataSpec
from kernels.catalog import BY_NAME
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem

if TYPE_CHECKING:
    from worker.cuda.bench.operands import OperandSet
    from worker.cuda.runner import CudaRunner

Put = Callable[["OperandSet"], object]  # puts a product on the current stream


def prepared(
    runner: CudaRunner,
    name: str,
    problem: Problem,
    change: Callable[[CudaKernel], CudaKernel],
    asked: TileConfig = NO_CONFIG,
) -> Put:
    """A way to launch the changed kernel, in the config that the kernel of the catalogue would get; skips on a device
    without these instructions."""
    from worker.cuda.launch import prepare

    kernel = BY_NAME[name]
    assert isinstance(kernel, CudaKernel)
    if (reason := kernel.unsupported_because(runner.device.traits)) is not None:
        pytest.skip(reason)
    config = kernel.resolve_config(asked, problem, runner.device.traits)
    made = prepare(runner.compiler, change(kernel), config, problem)
    return lambda at: made.launch(at.a, at.b, at.c)


def drawn(runner: CudaRunner, problem: Problem, data: DataSpec) -> OperandSet:
    from worker.cuda.bench.operands import random_set

    return random_set(runner.compiler, problem, data)


def computed(put: Put, at: OperandSet) -> Any:
    """The product's bits, on the device."""
    import cupy

    from worker.cuda.bench.operands import view

    at.poison()
    put(at)
    found = view(at.c).copy()
    cupy.cuda.get_current_stream().synchronize()
    return found


def check_launches_at_once(put: Put, sets: Sequence[OperandSet], expected: Sequence[Any], launches: int) -> None:
    """Launches so often in a stream for each set of operands; every product has the bits expected."""
    import cupy

    from worker.cuda.bench.operands import view

    for at in sets:
        at.poison()
    cupy.cuda.Device().synchronize()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in sets]
    for _ in range(launches):
        for stream, at in zip(streams, sets, strict=True):
            with stream:
                put(at)
    for stream in streams:
        stream.synchronize()
    for at, bits in zip(sets, expected, strict=True):
        assert (view(at.c) == bits).all()


def check_graph(put: Put, at: OperandSet, launches: int) -> None:
    """Replays a graph of so many launches as often; each replay has the bits of a launch before."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with stream:
        expected = computed(put, at)  # from now on the workspace is there
        stream.begin_capture()
        for _ in range(launches):
            put(at)
        graph = stream.end_capture()
        for _ in range(launches):
            assert (computed(lambda _: graph.launch(stream), at) == expected).all()
