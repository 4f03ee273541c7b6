"""Which part of each matrix lies on which GPU for cuBLASMp: pure arithmetic.

Each GPU has some columns of B and of C, and some rows of A, which the library gathers from all. Sizes are rounded up,
so that parts are equal and rows begin at aligned addresses. What is added along m and n is computed and left behind;
what is added along k is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kernels.model.numerics import DTYPES, Problem
from kernels.tiles.plan import Span
from worker.cuda.library.cublas_mp import Distributed

ALIGNMENT = 16  # elements
WORKSPACE_BYTES = 100 << 20  # that the library asks for beside room for A: 96 MiB, and up to a page of 2 MiB


class LocalPart(NamedTuple):
    """Rows and columns of one stored matrix of a batch; on the device, rows lie `pitch` elements apart, and there are
    `kept_rows`."""

    rows: Span
    columns: Span
    pitch: int
    kept_rows: int

    @property
    def elements(self) -> int:
        return self.pitch * self.kept_rows


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one product, not of a batch, on several GPUs. A, B and C are as they are stored, row-major."""

    problem: Problem
    ranks: int

    @property
    def m(self) -> int:
        return _up(self.problem.m, ALIGNMENT * self.ranks)

    @property
    def n(self) -> int:
        return _up(self.problem.n, ALIGNMENT * self.ranks)

    @property
    def k(self) -> int:
        return _up(self.problem.k, ALIGNMENT)

    def a(self, rank: int) -> LocalPart:
        """Some of its rows; of a transposed one, columns."""
        span, whole = _share(self.problem.m, self.m // self.ranks, rank), Span(0, self.problem.k)
        if self.problem.transpose_a:
            return LocalPart(whole, span, self.m // self.ranks, self.k)
        return LocalPart(span, whole, self.k, self.m // self.ranks)

    def b(self, rank: int) -> LocalPart:
        """Some of its columns; of a transposed one, rows."""
        span, whole = _share(self.problem.n, self.n // self.ranks, rank), Span(0, self.problem.k)
        if self.problem.transpose_b:
            return LocalPart(span, whole, self.k, self.n // self.ranks)
        return LocalPart(whole, span, self.n // self.ranks, self.k)

    def c(self, rank: int) -> LocalPart:
        """Some of its columns."""
        span = _share(self.problem.n, self.n // self.ranks, rank)
        return LocalPart(Span(0, self.problem.m), span, self.n // self.ranks, self.m)

    def described(self) -> tuple[Distributed, Distributed, Distributed]:
        """B, A and C as the library sees them: column-major, so each is its own transpose. Blocks of C are as long as a
        GPU's rows of A, for the library wants equal blocks along each size."""
        m, n, k = self.m, self.n, self.k
        of_m, of_n = m // self.ranks, n // self.ranks
        b, a = Distributed(n, k, (of_n, k), by_rows=True), Distributed(k, m, (k, of_m), by_rows=False)
        if self.problem.transpose_b:
            b = Distributed(k, n, (k, of_n), by_rows=False)
        if self.problem.transpose_a:
            a = Distributed(m, k, (of_m, k), by_rows=True)
        return b, a, Distributed(n, m, (of_n, of_m), by_rows=True)

    @property
    def device_bytes(self) -> int:
        """Bytes on each GPU: its parts, and the library's workspace, into which the whole of A comes."""
        elements = sum(part.elements for part in (self.a(0), self.b(0), self.c(0))) + self.m * self.k
        return elements * DTYPES[self.problem.dtype].itemsize + WORKSPACE_BYTES


def _share(size: int, length: int, rank: int) -> Span:
    """The share of one rank; those of the last ranks may be empty."""
    return Span(min(rank * length, size), min((rank + 1) * length, size))


def _up(size: int, step: int) -> int:
    return -(-size // step) * step
