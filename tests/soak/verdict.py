"""What samples of a run say: does anything grow that should not?

The memory of a process grows if its slope is LIMIT_MIB_H or more and its 95 % interval is above zero. Where it does
not, but the interval reaches beyond the limit, the run was too short to say, and the process is listed as undecided.
Within minutes one block that an allocator takes looks like growth. All else must be flat, mapped files and shared
memory too: the last quarter of the samples is compared with the first, both after the warm-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tests.soak.sample import Sample
from tests.soak.slope import Slope, slope

LIMIT_MIB_H = 1.0
COUNTED = "anonymous pages, in memory or swapped out (Anonymous and Swap of /proc/PID/smaps_rollup)"
MORE_DESCRIPTORS = 16
MORE_MAPPED_MIB = 16.0
MORE = 0.05  # of Redis' memory and keys, and of files in the store, beside a few
A_FEW = {"keys": 500, "redis_kib": 1024, "files": 200, "files_kib": 8192}


@dataclass(frozen=True, slots=True)
class Flat:
    """Medians of the first and the last quarter."""

    first: float
    last: float
    is_flat: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """`memory`: by process, MiB an hour. `mapped`: MiB of files and shared memory that a process maps."""

    memory: dict[str, Slope]
    mapped: dict[str, Flat]
    descriptors: dict[str, Flat]
    others: dict[str, Flat]
    ended: list[str]  # processes that were not there at the end

    @property
    def growing(self) -> list[str]:
        """What does."""
        memory = [f"the memory of {name}" for name, each in self.memory.items() if _grows(each)]
        descriptors = [f"descriptors of {name}" for name, each in self.descriptors.items() if not each.is_flat]
        mapped = [f"what {name} maps" for name, each in self.mapped.items() if not each.is_flat]
        return memory + mapped + descriptors + [name for name, each in self.others.items() if not each.is_flat]

    @property
    def undecided(self) -> list[str]:
        """Processes."""
        return [name for name, each in self.memory.items() if each.high >= LIMIT_MIB_H and not _grows(each)]

    def as_record(self) -> dict[str, Any]:
        return {"counted": COUNTED} | asdict(self) | {"growing": self.growing, "undecided": self.undecided}


def _grows(memory: Slope) -> bool:
    return memory.per_h >= LIMIT_MIB_H and memory.low > 0


def judge(samples: Sequence[Sample], warm_up_s: float) -> Verdict:
    """Raises ValueError where too few samples came after the warm-up."""
    warm = [each for each in samples if each.at_s >= warm_up_s]
    names = samples[0].processes.keys()
    there = [name for name in names if all(name in each.processes for each in warm)]
    times = [each.at_s for each in warm]

    def of(name: str, field: str) -> list[float]:
        return [getattr(each.processes[name], field) for each in warm]

    def mapped_mib(name: str) -> list[float]:
        both = zip(of(name, "rss_kib"), of(name, "own_kib"), strict=True)
        return [max(rss - own, 0.0) / 1024 for rss, own in both]

    return Verdict(
        memory={name: slope(times, [kib / 1024 for kib in of(name, "own_kib")]) for name in there},
        mapped={name: _flat(mapped_mib(name), MORE, MORE_MAPPED_MIB) for name in there},
        descriptors={name: _flat(of(name, "descriptors"), 0.0, MORE_DESCRIPTORS) for name in there},
        others={name: _flat([getattr(each, name) for each in warm], MORE, few) for name, few in A_FEW.items()},
        ended=sorted(names - set(there)),
    )


def _flat(values: Sequence[float], share: float, few: float) -> Flat:
    quarter = max(1, len(values) // 4)
    first, last = median(values[:quarter]), median(values[-quarter:])
    return Flat(first, last, last <= first * (1 + share) + few)
