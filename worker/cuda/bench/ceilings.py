"""The GPU's roofs, measured: memory and L2 by plain kernels, cores by chains of multiply-adds, tensor cores by the best
that cuBLAS reaches, PCI Express by copies from page-locked memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.api import driver

from jobs.benchmarks.records import Ceiling
from jobs.benchmarks.statistics import summarize
from jobs.errors import KernelUnavailable, OutOfDeviceMemory
from jobs.fleet.workers import DeviceInfo
from kernels.model.numerics import DTypeName
from worker.cuda.bench.environment import pcie
from worker.cuda.bench.nvml import Nvml
from worker.cuda.bench.plan import MAX_LAUNCHES
from worker.cuda.bench.sampler import Sampler
from worker.cuda.compile import Compiler
from worker.cuda.gpu.faults import device_faults
from worker.cuda.gpu.peaks import core_gflops, link_gb_s
from worker.cuda.sources import benchmark_program
from worker.device.bench import Sample

SAMPLES = 15
WARM_UP_S = 0.1
SAMPLE_US = 500.0  # least length of a sample
L2S = 4  # size of the arrays for the memory roof, relative to the L2
LARGEST_ARRAY = 1 << 30
L2_PART = 4  # both arrays for the L2 roof take 1/L2_PART of it, because the L2 of large devices has two halves
L2_PASSES = 64
LINK_BYTES = 256 << 20
THREADS, AT_ONCE, CHAINS, STEPS = 256, 4, 8, 16  # as in cuda/benchmark.cu
FIRST_ROUNDS = 16  # of a chain, to see how long one takes


@dataclass(frozen=True, slots=True)
class Chain:
    """Multiply-adds of one type: factor and addend keep the values finite."""

    dtype: DTypeName
    element: type[np.generic]
    factor: float
    addend: float
    lanes: int = 1  # multiply-adds of one instruction


CHAINS_OF: tuple[Chain, ...] = (
    Chain("float32", np.float32, 0.5, 1.0),
    Chain("float64", np.float64, 0.5, 1.0),
    Chain("float16", np.uint32, 0x38003800, 0x3C003C00, lanes=2),  # halves: twice 0.5, twice 1.0
    Chain("int32", np.int32, 3, 1),
)


class CoreRoofs:
    """All roofs but those of cuBLAS, measured on the current stream."""

    def __init__(self, compiler: Compiler, device: DeviceInfo) -> None:
        self._device, self._compiler = device, compiler
        self._multiprocessors = device.multiprocessors or 1
        self._sampler = Sampler(compiler, device.l2_bytes, self._multiprocessors)

    def all(self) -> Iterator[Ceiling]:
        """Yields each roof when it has been measured; one that cannot be measured has the reason."""
        yield reasoned("dram_copy", "GB/s", partial(self._memory, "copy", arrays=2))
        yield reasoned("dram_triad", "GB/s", partial(self._memory, "triad", arrays=3))
        yield reasoned("l2_copy", "GB/s", self._l2)
        for chain in CHAINS_OF:
            yield reasoned(f"fma_{chain.dtype}", "GFLOPS", partial(self._chain, chain))
        yield reasoned("pcie_h2d", "GB/s", partial(self._link, "pcie_h2d"))
        yield reasoned("pcie_d2h", "GB/s", partial(self._link, "pcie_d2h"))

    def _memory(self, name: str, *, arrays: int) -> Ceiling:
        size = array_bytes(self._device.l2_bytes, self._device.memory_bytes)
        memory = [cupy.cuda.alloc(size) for _ in range(arrays)]
        for each in memory:
            each.memset_async(0, size)
        places = [np.uint64(each.ptr) for each in memory]
        count, blocks = np.int64(size // 16), -(-size // (16 * THREADS * AT_ONCE))
        last = (np.float32(0.5), count) if name == "triad" else (count, np.int32(1))
        function = self._function(name)
        samples = self._taken(lambda _: function((blocks,), (THREADS,), (*places, *last)))
        return ceiling(
            f"dram_{name}",
            "GB/s",
            arrays * size,
            samples,
            theoretical=self._device.theoretical.memory_gb_s,
            note=f"{arrays} arrays of {size >> 20} MiB, bytes read and written",
        )

    def _l2(self) -> Ceiling:
        if not self._device.l2_bytes:
            raise KernelUnavailable("The device does not tell the size of its L2.")
        size = self._device.l2_bytes // L2_PART // 2 // 4096 * 4096
        memory = [cupy.cuda.alloc(size) for _ in range(2)]
        for each in memory:
            each.memset_async(0, size)
        arguments = (*(np.uint64(each.ptr) for each in memory), np.int64(size // 16), np.int32(L2_PASSES))
        function = self._function("copy")
        blocks = self._resident(function) * self._multiprocessors
        samples = self._taken(lambda _: function((blocks,), (THREADS,), arguments))
        note = f"2 arrays of {size >> 10} KiB, {L2_PASSES} passes past the L1, bytes read and written"
        return ceiling("l2_copy", "GB/s", 2 * size * L2_PASSES, samples, note=note)

    def _chain(self, chain: Chain) -> Ceiling:
        function = self._function(f"chains_{chain.dtype}")
        blocks = self._resident(function) * self._multiprocessors
        out = cupy.cuda.alloc(8 * blocks * THREADS)
        values = np.uint64(out.ptr), chain.element(chain.factor), chain.element(chain.addend)

        def run(rounds: int) -> Callable[[int], None]:
            return lambda _: function((blocks,), (THREADS,), (*values, np.int32(rounds)))

        run(1)(0)
        cupy.cuda.get_current_stream().synchronize()
        first_us = self._sampler.sample(run(FIRST_ROUNDS), 1, "warm").time_us
        rounds = max(FIRST_ROUNDS, int(FIRST_ROUNDS * 2 * SAMPLE_US / first_us))
        per_thread = CHAINS * STEPS * rounds + CHAINS - 1
        known = core_gflops(self._device.compute_capability, self._device.multiprocessors, self._device.max_clock_mhz)
        return ceiling(
            f"fma_{chain.dtype}",
            "GFLOPS",
            2 * chain.lanes * per_thread * blocks * THREADS,
            self._taken(run(rounds)),
            theoretical=known.get(chain.dtype),
            dtype=chain.dtype,
            note=f"{CHAINS} chains of multiply-adds in each of {blocks * THREADS} threads, on CUDA cores",
        )

    def _link(self, name: str) -> Ceiling:
        host = cupy.cuda.alloc_pinned_memory(LINK_BYTES)
        memory = cupy.cuda.alloc(LINK_BYTES)
        runtime, stream = cupy.cuda.runtime, cupy.cuda.get_current_stream().ptr
        to, source, kind = memory.ptr, host.ptr, runtime.memcpyHostToDevice
        if name == "pcie_d2h":
            to, source, kind = host.ptr, memory.ptr, runtime.memcpyDeviceToHost
        samples = self._taken(lambda _: runtime.memcpyAsync(to, source, LINK_BYTES, kind, stream))
        link = pcie(Nvml(self._device.uuid))
        return ceiling(
            name,
            "GB/s",
            LINK_BYTES,
            samples,
            theoretical=link_gb_s(link["generation_max"], link["lanes_max"]),
            note=f"{LINK_BYTES >> 20} MiB, page-locked; the theoretical figure is the link's before packet headers",
        )

    def _function(self, name: str) -> Any:
        return self._compiler.function(benchmark_program(), name)

    def _resident(self, function: Any) -> int:
        return int(driver.occupancyMaxActiveBlocksPerMultiprocessor(function.ptr, THREADS, 0))

    def _taken(self, launch: Callable[[int], None]) -> list[Sample]:
        launch(0)
        cupy.cuda.get_current_stream().synchronize()
        return collected(lambda reps: self._sampler.sample(launch, reps, "warm"))


def collected(sample: Callable[[int], Sample]) -> list[Sample]:
    """Takes samples after a warm-up, each with enough launches to be long enough."""
    until = time.monotonic() + WARM_UP_S
    last = sample(1)
    while time.monotonic() < until:
        last = sample(1)
    reps = min(MAX_LAUNCHES, max(1, math.ceil(SAMPLE_US / max(last.time_us, 1e-3))))
    return [sample(reps) for _ in range(SAMPLES)]


def ceiling(name: str, unit: Any, work: int, samples: list[Sample], **known: Any) -> Ceiling:
    """The ceiling from samples of launches that each do `work` operations or move `work` bytes."""
    times = summarize([sample.time_us for sample in samples])
    clocks = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
    return Ceiling(
        name=name,
        unit=unit,
        value=work / times.median / 1e3,
        time_us=times,
        sm_clock_mhz=fmean(clocks) if clocks else None,
        **known,
    )


def reasoned(name: str, unit: Any, measure: Callable[[], Ceiling]) -> Ceiling:
    """The roof, or the reason why there is none. Raises DeviceFault."""
    try:
        with device_faults():
            return measure()
    except (KernelUnavailable, OutOfDeviceMemory) as error:
        return Ceiling(name=name, unit=unit, value=None, reason=error.detail)


def array_bytes(l2_bytes: int | None, memory_bytes: int | None) -> int:
    """The size of each array for the memory roof: far larger than the L2, and a small part of the memory."""
    min_bytes = L2S * (l2_bytes or 0)
    return max(min_bytes, min(LARGEST_ARRAY, (memory_bytes or LARGEST_ARRAY) // 16)) // 4096 * 4096
