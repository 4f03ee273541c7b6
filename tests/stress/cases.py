"""Random products for `make stress`: which kernel multiplies what, by seed and number alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from random import Random

from benchmarks.operand_kinds import KINDS
from kernels.catalog import CATALOG
from kernels.model.entry.config import NO_CONFIG, TileConfig
from kernels.model.kernel import CudaKernel, DeviceClass, DeviceTraits, Kernel
from kernels.model.numerics import DTYPES, DTypeName, Problem
from tests.campaign.data import INTEGERS

MIN_SIZE, MAX_SIZE, MAX_LONG_SIZE = 1, 1500, 4096  # of m, n and k, and of the few that are longer
LONG, EMPTY, SNAPPED, BATCHED = 0.06, 0.005, 0.35, 0.25  # shares: of sizes, of k, of sizes, of products
STEPS = (4, 8, 16, 64, 128)  # that some sizes are whole multiples of: other paths of a kernel
LARGEST_BATCH = 12
# Of a product: the reference takes them in float64, on the CPU, and a CPU's worker takes them besides.
MAX_MULTIPLICATIONS: Mapping[DeviceClass, int] = {"gpu": 1 << 31, "cpu": 1 << 26}
TRIES = 50  # configs that are tried for one that fits
WAYS = 12  # of a kernel in a run, each compiled once; another seed gives others
EXACT = "small integers"
ROUGH = 4  # every so many-th product is of numbers that are rounded


@dataclass(frozen=True, slots=True)
class Way:
    """An element type, what is transposed, and a config; an empty one is the default for the product."""

    dtype: DTypeName
    transposes: tuple[bool, bool]
    config: TileConfig


@dataclass(frozen=True, slots=True)
class Case:
    """A product by a kernel, of operands of a kind. `exact`: of small integers, so that every element is known to the
    last bit."""

    number: int
    kernel: Kernel
    config: TileConfig
    problem: Problem
    data: str

    @property
    def exact(self) -> bool:
        return self.data == EXACT

    def __str__(self) -> str:
        config = " ".join(f"{name}={value}" for name, value in self.config.items()) or "default config"
        return f"number {self.number}: {self.kernel.name} ({config}), {self.data}, {self.problem}"


class Deck:
    """Cases by number, the same for a seed and a device whatever is drawn before."""

    def __init__(self, seed: int, device: DeviceTraits, kernels: Collection[str] = ()) -> None:
        """`kernels`: only these. Raises ValueError where the device runs none."""
        fit = [kernel for kernel in CATALOG if kernel.unsupported_because(device) is None]
        self.kernels = tuple(kernel for kernel in fit if not kernels or kernel.name in kernels)
        if not self.kernels:
            raise ValueError("the device runs none of these kernels")
        self._seed, self._device = seed, device
        self._ways = {kernel.name: tuple(_ways(kernel, seed, device)) for kernel in self.kernels}

    def ways(self, kernel: Kernel) -> Sequence[Way]:
        """Those in which a kernel of the deck is called."""
        return self._ways[kernel.name]

    def case(self, number: int) -> Case:
        """Kernels by turns, so that each has its share of any run."""
        kernel = self.kernels[number % len(self.kernels)]
        random = Random(f"{self._seed}:{number}")
        way = random.choice(self._ways[kernel.name])
        problem = _problem(random, way, MAX_MULTIPLICATIONS[kernel.device_class])
        config = kernel.resolve_config(way.config, problem, self._device)
        data = EXACT if random.randrange(ROUGH) else random.choice(tuple(_kinds(way.dtype)))
        return Case(number, kernel, config, problem, data)


def _kinds(dtype: DTypeName) -> Collection[str]:
    """Of operands whose products are rounded or, where they are integers, wrap."""
    return INTEGERS if DTYPES[dtype].is_integer else KINDS


def _ways(kernel: Kernel, seed: int, device: DeviceTraits) -> Iterator[Way]:
    random = Random(f"{seed}:{kernel.name}")
    dtypes = [dtype for dtype in kernel.dtypes if kernel.unsupported_because(device, dtype) is None]
    every = list(kernel.configs()) if isinstance(kernel, CudaKernel) else [NO_CONFIG]
    for number in range(WAYS):
        dtype = dtypes[number % len(dtypes)]
        transposes = random.random() < 0.5, random.random() < 0.5
        tries = random.sample(every, min(len(every), TRIES)) if number % 3 else []
        fit = (config for config in tries if kernel.misfit(config, dtype, device) is None)
        yield Way(dtype, transposes, next(fit, NO_CONFIG))


def _problem(random: Random, way: Way, most: int) -> Problem:
    batched = random.random() < BATCHED
    batch = random.randint(2, LARGEST_BATCH) if batched else 1
    over_a, over_b = random.choice(((True, True), (True, False), (False, True))) if batched else (False, False)
    sizes = [_size(random) for _ in range(3)]
    while sizes[0] * sizes[1] * sizes[2] * batch > most:
        longest = sizes.index(max(sizes))
        sizes[longest] -= sizes[longest] // 3
    m, n, k = sizes
    return Problem(m, n, 0 if random.random() < EMPTY else k, way.dtype, batch, *way.transposes, over_a, over_b)


def _size(random: Random) -> int:
    ends = (MAX_SIZE, MAX_LONG_SIZE) if random.random() < LONG else (MIN_SIZE, MAX_SIZE)
    size = round(exp(random.uniform(*map(log, ends))))
    if random.random() >= SNAPPED:
        return size
    step = random.choice(STEPS)
    return -(-size // step) * step


def described(cases: Sequence[Case]) -> dict[str, dict[str, int]]:
    """By kernel: products, and how many of them were exact, batched, transposed."""
    counts: dict[str, dict[str, int]] = {}
    for case in cases:
        mine = counts.setdefault(case.kernel.name, dict.fromkeys(("products", "exact", "batched", "transposed"), 0))
        mine["products"] += 1
        mine["exact"] += case.exact
        mine["batched"] += case.problem.batch > 1
        mine["transposed"] += case.problem.transpose_a or case.problem.transpose_b
    return counts
