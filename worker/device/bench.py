"""The interface for timing kernels on a device, with one class per device class. Everything that does not depend on the
device (when to stop, which samples count, what is recorded) is in `worker/benchmark/measure`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from jobs.benchmarks.cases import Case
from jobs.benchmarks.records import CopyFigures, DeviceState, LaunchFigures
from jobs.benchmarks.spec import CacheState
from jobs.formats.elements import Array
from worker.check.checkable import Checkable


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed sample of `reps` launches."""

    time_us: float  # of one launch
    sm_clock_mhz: float | None  # mean over the sample; None if the device does not report it
    launch_us: float  # what putting one launch on the stream cost the host


@dataclass(slots=True)
class Watched:
    """Observations of the device during a watch; filled in when the watch ends."""

    state: DeviceState = field(default_factory=DeviceState)
    contended: bool = False  # another process used the device
    throttled: bool = False  # heat or a power brake held the clock down
    power_limited: bool = False  # the power cap did


class Prepared(ABC):
    """A kernel ready to be launched on a bench's operands."""

    launch: LaunchFigures
    compile_ms: float

    @abstractmethod
    def sample(self, reps: int, cache: CacheState) -> Sample:
        """Times `reps` consecutive launches. Raises DeviceFault."""


@dataclass(frozen=True, slots=True)
class ProductErrors:
    """Errors relative to the true product, or to its row; absolute where that is zero."""

    frobenius: float
    worst_row: float


def product_errors(wrong: Array, size: Array) -> ProductErrors:
    """Computed from sums of squares by row: `wrong` of differences, `size` of the true elements."""
    whole, rows = size.sum(), np.where(size > 0, size, 1.0)
    frobenius = np.sqrt(wrong.sum() / (whole if whole else 1.0))
    return ProductErrors(float(frobenius), float(np.sqrt((wrong / rows).max(initial=0.0))))


class Bench(ABC):
    """The operands of one problem on a device. Good until its context ends; for one thread."""

    default_clock_mhz: float | None = None  # the reference for a sample's clock; None: samples are never discarded

    @abstractmethod
    def prepare(self, case: Case) -> Prepared:
        """Compiles where that is needed. Raises KernelUnavailable, OutOfDeviceMemory, DeviceFault."""

    @abstractmethod
    def poison(self) -> None:
        """Fills the product with a value that no kernel computes: NaN, or for integers the lowest value."""

    @abstractmethod
    def matrices(self) -> Checkable:
        """Operands and product for the check of `worker/check/verify.py`."""

    @abstractmethod
    def errors_vs_float64(self) -> ProductErrors | None:
        """The product's errors against float64, on some rows; None for integers."""

    @abstractmethod
    def largest_error_ratio(self) -> float:
        """The largest |C - C64| of any element divided by the error that rounding explains, for `verify: full`; 0 if
        all are exact.
        """

    @abstractmethod
    def copies(self, *, pageable: bool) -> CopyFigures | None:
        """Operands in and product out, medians of ten; None on a device that shares the host's memory."""

    @abstractmethod
    def energy_mj(self, prepared: Prepared, window_s: float) -> float | None:
        """The energy of one launch, by the device's counter over a steady loop; None without a counter."""

    def is_power_capped(self) -> bool:
        """Whether the power cap, and not something that passes, holds the clock down now."""
        return False

    @abstractmethod
    def watch(self) -> AbstractContextManager[Watched]:
        """Watches clocks, heat, power and other processes until the context ends."""
