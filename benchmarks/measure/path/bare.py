"""The bare path of a product, without a service: CuPy on a GPU, numpy on a CPU."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from jobs.formats.elements import Array


class Bare(ABC):
    """One pair of operands. Times are in milliseconds of this process's clock, from the call until the product is on
    the host."""

    product: Array  # on the host, of the last call

    def fresh_ms(self) -> float:
        """Both operands from page-locked memory, the product, and the copy back."""
        return _timed_ms(self._fresh)

    def resident_ms(self) -> float:
        """The product of operands that are on the device, and the copy back."""
        return _timed_ms(lambda: self._resident(1))

    def resident_per_s(self, count: int) -> float:
        """Such products per second, queued one after another."""
        return count / _timed_ms(lambda: self._resident(count)) * 1e3

    @abstractmethod
    def _fresh(self) -> None:
        """Operands to the device, one product, and back."""

    @abstractmethod
    def _resident(self, count: int) -> None:
        """This many products of the operands on the device, each copied back."""


class NumpyBare(Bare):
    """On a CPU nothing is copied."""

    def __init__(self, a: Array, b: Array) -> None:
        self._a, self._b, self.product = a, b, np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)

    def _fresh(self) -> None:
        self._resident(1)

    def _resident(self, count: int) -> None:
        for _ in range(count):
            np.matmul(self._a, self._b, out=self.product)


class CupyBare(Bare):
    """cuBLAS, as CuPy calls it."""

    def __init__(self, a: Array, b: Array) -> None:
        import cupy
        import cupyx

        self._stream = cupy.cuda.Stream(non_blocking=True)
        shape = (*a.shape[:-1], b.shape[-1])
        self._hosts = [cupyx.empty_pinned(operand.shape, operand.dtype) for operand in (a, b)]
        for host, operand in zip(self._hosts, (a, b), strict=True):
            host[...] = operand
        self.product = cupyx.empty_pinned(shape, a.dtype)
        self._operands = [cupy.empty(operand.shape, operand.dtype) for operand in (a, b)]
        self._c = cupy.empty(shape, a.dtype)
        self._matmul = cupy.matmul
        cupy.cuda.get_current_stream().synchronize()
        self._fresh()

    def _fresh(self) -> None:
        for operand, host in zip(self._operands, self._hosts, strict=True):
            operand.set(host, stream=self._stream)
        self._resident(1)

    def _resident(self, count: int) -> None:
        with self._stream:
            for _ in range(count):
                self._matmul(*self._operands, out=self._c)
                self._c.get(stream=self._stream, out=self.product, blocking=False)
        self._stream.synchronize()


def bare_path(device: str, a: Array, b: Array) -> Bare:
    if device == "cpu":
        return NumpyBare(a, b)
    import cupy

    cupy.cuda.Device(int(device.partition(":")[2])).use()
    return CupyBare(a, b)


def _timed_ms(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return (time.perf_counter() - begun) * 1e3
