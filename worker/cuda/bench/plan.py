"""Plans a sample on a GPU by arithmetic, without a device."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from jobs.formats.elements import Array
from kernels.model.numerics import DTYPES, DTypeName

MIN_FLUSH_BYTES = 256 << 20
FLUSHED_L2S = 2  # L2 sizes overwritten: more than one, because its replacement is not strictly LRU

# Most launches of one sample. While the stream is held, the driver takes about 1024 operations and then lets the host
# wait, which would wait for ever. A product is up to twelve operations: its workspace, itself, four passes and, of a
# kernel behind it that may take its place, two operands transposed or copied, that kernel, and its product copied back.
MAX_LAUNCHES = 80

CYCLES, NANOSECONDS = 0, 1  # of a clock stamp

DISTRIBUTIONS = {"normal": 0, "uniform": 1, "integers": 2, "zeros": 3}  # as in cuda/random.cu


def flush_bytes(l2_bytes: int | None) -> int:
    """The number of bytes to overwrite so that no part of the operands is left in the L2."""
    return max(MIN_FLUSH_BYTES, FLUSHED_L2S * (l2_bytes or 0))


def rotating_sets(set_bytes: int, l2_bytes: int | None, launches: int) -> int:
    """The number of copies of operands and product that a cold sample cycles through, so that no launch finds its own
    in the L2: before a copy is reused, the others have filled the L2 twice. Never more than there are launches.
    """
    between = flush_bytes(l2_bytes) if l2_bytes is None else FLUSHED_L2S * l2_bytes
    return min(launches, 1 + -(-between // max(1, set_bytes)))


def drawn(dtype: DTypeName, distribution: str) -> str:
    """The distribution that is actually drawn: integer types use integers from -8 to 8 for all distributions except
    zeros.
    """
    return "integers" if DTYPES[dtype].is_integer and distribution != "zeros" else distribution


def is_contended(seen: Collection[int], family: Collection[int]) -> bool:
    """Whether processes on the device are not of this process's family.

    In a container NVML tells the host's process ids, by which this process cannot find itself: then more than one is
    one too many.
    """
    if any(pid in family for pid in seen):
        return any(pid not in family for pid in seen)
    return len(set(seen)) > 1


def mean_clock_mhz(stamps: Array) -> float | None:
    """Between two stamps of (cycles, nanoseconds) for each multiprocessor, zeros where there is none; the median over
    those that have both. None where none has."""
    both = np.all(stamps[..., NANOSECONDS] > 0, axis=0)
    elapsed = (stamps[1] - stamps[0])[both].astype(np.float64)
    elapsed = elapsed[elapsed[:, NANOSECONDS] > 0]
    if not len(elapsed):
        return None
    return float(np.median(elapsed[:, CYCLES] / elapsed[:, NANOSECONDS])) * 1e3
