"""Random products for `make stress`: which kernel multiplies what, by seed and number alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.operand_kinds import KINDS
from kernels.catalog import CATALOG
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import DeviceTraits, Kernel
from kernels.model.numerics import DTYPES, AccuracyName, DTypeName, Problem
from tests.campaign.data import INTEGERS
from tests.stress.forms import FORMS, Draw, Drawn, FormName, is_free
from tests.stress.ways import FUSED_WAYS, FusedWay, Way, fused_epilogue, fused_ways_of, types_of, ways_of

EXACT, PROVEN, SCALED = "small integers", "magnitudes that bounds are proven for", "with scales"
ROUGH = 4  # every so many-th product is of numbers that are rounded


@dataclass(frozen=True, slots=True)
class Case:
    """A product by a kernel, of operands of a kind. `exact`: of small integers, so that every element is known to the
    last bit."""

    number: int
    kernel: Kernel
    config: TileConfig
    form: FormName
    drawn: Drawn
    data: str

    @property
    def exact(self) -> bool:
        return self.data == EXACT

    @property
    def problem(self) -> Problem:
        return self.drawn.problem

    @property
    def accuracy(self) -> AccuracyName:
        return self.kernel.accuracy[self.problem.dtype]

    def __str__(self) -> str:
        config = " ".join(f"{name}={value}" for name, value in self.config.items()) or "default config"
        asked = [str(each) for each in (self.drawn.ending, self.drawn.tolerance, self.drawn.stored) if each is not None]
        form = ", ".join([self.form, *asked])
        return f"number {self.number}: {self.kernel.name} ({config}), {form}, {self.data}, {self.problem}"


class Deck:
    """Cases by number, the same for a seed and a device whatever is drawn before."""

    def __init__(self, seed: int, device: DeviceTraits, kernels: Collection[str] = ()) -> None:
        """`kernels`: only these. Raises ValueError where the device runs none."""
        fit = [kernel for kernel in CATALOG if kernel.unsupported_because(device) is None]
        self.kernels = tuple(kernel for kernel in fit if not kernels or kernel.name in kernels)
        if not self.kernels:
            raise ValueError("the device runs none of these kernels")
        self._seed, self._device = seed, device
        self._ways: dict[tuple[str, DTypeName], Sequence[Way]] = {}
        self._fused: dict[tuple[str, DTypeName], Sequence[FusedWay]] = {}
        self._sorts: dict[str, Sequence[tuple[DTypeName, FormName]]] = {}
        for kernel in self.kernels:
            for dtype in types_of(kernel, device):
                ways = self._ways[kernel.name, dtype] = ways_of(kernel, dtype, seed, device)
                own = fused_ways_of(kernel, dtype, ways, seed)
                self._fused[kernel.name, dtype] = [*own, *_of_widened(kernel, ways)]
            self._sorts[kernel.name] = self._sorts_of(kernel)

    def ways(self, kernel: Kernel) -> Sequence[Way]:
        """Those in which a kernel of the deck is called."""
        return [way for dtype in types_of(kernel, self._device) for way in self._ways[kernel.name, dtype]]

    def case(self, number: int) -> Case:
        """Kernels by turns, and of each its types and forms, so that each has its share of any run."""
        turn, index = divmod(number, len(self.kernels))
        kernel = self.kernels[index]
        sorts = self._sorts[kernel.name]
        dtype, form = sorts[turn % len(sorts)]
        random = Random(f"{self._seed}:{number}")
        own = self._fused[kernel.name, dtype] if form in ("fused", "widened") else ()
        fused = random.choice(own) if own else None
        way = random.choice(self._ways[kernel.name, dtype]) if fused is None else fused.way
        is_rough = form == "tolerance" or not random.randrange(ROUGH)
        drawn = FORMS[form].draw(Draw(random, kernel, way, fused, self._device, not is_rough))
        config = kernel.resolve_config(drawn.config, drawn.problem, self._device)
        data = random.choice(_kinds(form, drawn)) if is_rough else EXACT
        return Case(number, kernel, config, form, drawn, data)

    def _sorts_of(self, kernel: Kernel) -> Sequence[tuple[DTypeName, FormName]]:
        found = [
            (dtype, name)
            for dtype in types_of(kernel, self._device)
            for name, form in FORMS.items()
            if form.suits(kernel, dtype)
            for _ in range(form.weight)
        ]
        return Random(f"{self._seed}:{kernel.name}").sample(found, len(found))


def _of_widened(kernel: Kernel, ways: Sequence[Way]) -> Sequence[FusedWay]:
    """For 16-bit operands of products that are float32, whose own kernel may multiply them."""
    if ways[0].dtype != "float32" or not is_free(kernel, "float32") or getattr(kernel, "fused_outputs", {}):
        return ()
    random = Random(kernel.name)
    return [
        FusedWay(ways[index % len(ways)], fused_epilogue(random, index, ("float32",), "float32"))
        for index in range(FUSED_WAYS)
    ]


def _kinds(form: FormName, drawn: Drawn) -> Sequence[str]:
    """Of operands whose products are rounded or, where they are integers, wrap."""
    if form == "tolerance":
        return (PROVEN,)
    if drawn.scale_width:
        return (SCALED,)
    return tuple(INTEGERS if DTYPES[drawn.problem.dtype].is_integer else KINDS)
