"""The benchmark request: kernels × shapes × tile configs × element types, and how to time them. The same model is the
body of POST /v1/benchmarks, part of the job's record, and the worker's input.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from jobs.base import Strict
from kernels.catalog import BY_NAME, KERNEL_NAMES
from kernels.model.numerics import DTypeName

BenchmarkKind = Literal["sweep", "ceilings", "tune"]
KernelSet = Literal["all", "ladder", "best"]
ConfigSet = Literal["default", "all"]
DataDistribution = Literal["normal", "uniform", "integers", "zeros"]
VerifyMode = Literal["freivalds", "full", "exact"]
CacheState = Literal["cold", "warm"]
MatrixLayout = Literal["padded", "dense"]

LARGEST_EXTENT = 1 << 20  # of a matrix's rows or columns; memory ends sooner
MAX_ITEMS = 4096  # of any list in a spec

Extent = Annotated[int, Field(ge=1, le=LARGEST_EXTENT)]


class Shape(Strict):
    """One product, m×k times k×n, or a batch of such products with separate operands."""

    m: Extent = Field(description="Rows of A and C.", examples=[16])
    n: Extent = Field(description="Columns of B and C.", examples=[8192])
    k: Extent = Field(description="Columns of A, rows of B.", examples=[8192])
    batch: Extent = Field(1, exclude_if=lambda batch: batch == 1, description="Products in one launch.")


class SizeRange(Strict):
    """Square products from `start` to `stop`, both included: every `step`, or `count` of them."""

    start: Extent = Field(description="First N.", examples=[256])
    stop: Extent = Field(description="Last N.", examples=[4096])
    step: Extent | None = Field(None, description="Distance on the linear scale.", examples=[256])
    count: int | None = Field(None, ge=1, le=MAX_ITEMS, description="How many sizes.", examples=[9])
    scale: Literal["linear", "log2"] = Field("linear", description="`log2` spaces them by equal ratios.")

    @model_validator(mode="after")
    def _is_a_range(self) -> SizeRange:
        if self.stop < self.start:
            raise ValueError(f"stop is {self.stop}, below start, which is {self.start}")
        if (self.step is None) == (self.count is None):
            raise ValueError("a range takes step or count, one of the two")
        if self.step is not None and self.scale == "log2":
            raise ValueError("on the log2 scale a range takes count, not step")
        return self

    def sizes(self) -> tuple[int, ...]:
        """Rising, without repetitions."""
        if self.step is not None:
            return tuple(range(self.start, self.stop + 1, self.step))
        count = self.count or 1
        if count == 1:
            return (self.start,)
        places = [place / (count - 1) for place in range(count)]
        if self.scale == "log2":
            found = [round(self.start * (self.stop / self.start) ** place) for place in places]
        else:
            found = [round(self.start + (self.stop - self.start) * place) for place in places]
        return tuple(dict.fromkeys(found))


class Rectangles(Strict):
    """Every combination of the given m, n and k."""

    m: tuple[Extent, ...] = Field(min_length=1, max_length=MAX_ITEMS, description="Rows of A and C.")
    n: tuple[Extent, ...] = Field(min_length=1, max_length=MAX_ITEMS, description="Columns of B and C.")
    k: tuple[Extent, ...] = Field(min_length=1, max_length=MAX_ITEMS, description="Columns of A, rows of B.")


def _kind_of_shape(value: Any) -> str:
    if isinstance(value, Shape | SizeRange):
        return "shape" if isinstance(value, Shape) else "range"
    if isinstance(value, Rectangles):
        return "rectangles"
    if not isinstance(value, dict):
        return "square"
    if "start" in value or "stop" in value:
        return "range"
    lists = any(isinstance(value.get(name), list | tuple) for name in "mnk")
    return "rectangles" if lists else "shape"


ShapeItem = Annotated[
    Annotated[Extent, Tag("square")]
    | Annotated[Shape, Tag("shape")]
    | Annotated[SizeRange, Tag("range")]
    | Annotated[Rectangles, Tag("rectangles")],
    Discriminator(_kind_of_shape),
]


class ConfigGrid(Strict):
    """Every combination of the given values that the kernel takes; parameters left out take their default."""

    grid: dict[str, tuple[int, ...]] = Field(
        description="Values by tile parameter.", examples=[{"block_m": [64, 128], "block_n": [64, 128]}]
    )


def _kind_of_configs(value: Any) -> str:
    if isinstance(value, str):
        return "set"
    return "grid" if isinstance(value, dict | ConfigGrid) else "list"


Configs = Annotated[
    Annotated[ConfigSet, Tag("set")]
    | Annotated[ConfigGrid, Tag("grid")]
    | Annotated[tuple[dict[str, int], ...], Field(min_length=1, max_length=MAX_ITEMS), Tag("list")],
    Discriminator(_kind_of_configs),
]


def _in_catalogue(name: str) -> str:
    if name not in BY_NAME:
        raise ValueError(f"there is no kernel {name[:40]!r}; GET /v1/kernels lists the {len(KERNEL_NAMES)} there are")
    return name


CatalogueKernel = Annotated[str, AfterValidator(_in_catalogue)]


class KernelAxis(Strict):
    """A kernel with tile configs of its own."""

    kernel: CatalogueKernel = Field(description="Name in the catalogue.", examples=["register_tiled"])
    configs: Configs | None = Field(None, description="As the spec's `configs`, for this kernel alone.")


KernelItem = Annotated[
    Annotated[CatalogueKernel, Tag("name")] | Annotated[KernelAxis, Tag("axis")],
    Discriminator(lambda value: "axis" if isinstance(value, dict | KernelAxis) else "name"),
]


def _kind_of_kernels(value: Any) -> str:
    return "set" if isinstance(value, str) else "list"


Kernels = Annotated[
    Annotated[KernelSet, Tag("set")]
    | Annotated[tuple[KernelItem, ...], Field(min_length=1, max_length=MAX_ITEMS), Tag("list")],
    Discriminator(_kind_of_kernels),
]


class DataSpec(Strict):
    """The operands' elements, made on the device from a seed."""

    distribution: DataDistribution = Field(
        "normal",
        description="`normal`: mean 0, variance 1. `uniform`: [0, 1). `integers`: -8 to 8, whose products are exact. "
        "`zeros` draw less power than real data, and so run faster: for showing just that.",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="Seed of the operands, and of the order of the cases.")
    scale: float = Field(1.0, gt=0, le=1e6, description="Factor on every element; types must hold the products.")
    layout: MatrixLayout = Field(
        "padded",
        description="How rows lie on a GPU. `padded`: at a padded pitch, as operands of products do. `dense`: one row "
        "straight after the other, as in most programs; int8 still in whole groups of 16. A kernel that copies rows to "
        "a pitch first does so while it is timed. On a CPU rows are always dense.",
    )


class TimingSpec(Strict):
    """How a case is sampled, and when sampling stops."""

    cache: CacheState = Field("cold", description="`cold`: the L2 is written over before each sample.")
    rounds: int = Field(2, ge=1, le=20, description="Passes over all cases, each in another order.")
    warmup_ms: float = Field(
        250.0,
        ge=0,
        le=10_000,
        description="Least time of launches before the first sample; up to four times as long while they are not "
        "steady.",
    )
    min_samples: int = Field(10, ge=1, le=1000, description="Least samples of a case in a round.")
    max_samples: int = Field(500, ge=1, le=5000, description="Most samples of a case in a round.")
    min_time_s: float = Field(
        0.3, ge=0, le=60, description="Least time of all samples together; 30 samples are enough all the same."
    )
    precision: float = Field(
        0.005, gt=0, le=1, description="Half width of the 95 % interval of the median that is precise enough."
    )
    timeout_s: float = Field(15.0, gt=0, le=600, description="Longest time for the samples of a case in a round.")

    @model_validator(mode="after")
    def _has_room(self) -> TimingSpec:
        if self.max_samples < self.min_samples:
            raise ValueError(f"max_samples is {self.max_samples}, below min_samples, which is {self.min_samples}")
        return self


class TransferSpec(Strict):
    """Copies between host and device, timed apart from the kernel and never overlapped with it."""

    enabled: bool = Field(False, description="Whether operands' way in and the product's way out are timed.")
    pageable: bool = Field(False, description="From ordinary memory too, beside page-locked memory.")


class EnergySpec(Strict):
    """Energy, from the device's counter over a steady loop."""

    enabled: bool = Field(False, description="Whether it is measured.")
    window_s: float = Field(2.0, ge=0.5, le=60, description="Length of the loop; the counter is refreshed slowly.")


class TuneSpec(Strict):
    """How `kind: tune` searches."""

    budget: int = Field(200, ge=1, le=MAX_ITEMS, description="Most configs of a kernel that are tried for a shape.")
    strategy: Literal["auto", "exhaustive", "random"] = Field(
        "auto", description="`auto`: every config where the budget allows it, else random ones and then their kin."
    )


class BenchmarkSpec(Strict):
    """A whole benchmark. Every field may be left out but `kernels` and `shapes`, and those for `ceilings`."""

    schema_version: Literal[1] = Field(1, description="Version of this schema.")
    kind: BenchmarkKind = Field(
        "sweep",
        description="`sweep`: every case timed. `ceilings`: the device's own roofs. `tune`: the best config of each "
        "kernel for each shape.",
    )
    preset: str | None = Field(None, description="Preset that this spec started from.", examples=["ladder"])
    title: str | None = Field(None, max_length=200, description="Heading of the report.")
    tags: tuple[Annotated[str, Field(min_length=1, max_length=50)], ...] = Field(
        (), max_length=20, description="Words to find it by."
    )
    device: str = Field(
        "any",
        max_length=200,
        description="Where: `gpu`, `cpu`, a model's name, a GPU's UUID, or `any`: a GPU where there is one.",
        examples=["NVIDIA H200"],
    )
    kernels: Kernels = Field(
        "ladder",
        description="Names from GET /v1/kernels, each alone or with configs of its own; `all` that run there; "
        "`ladder`: this project's own from the simplest on, with the library's; `best`: what `auto` takes by tables.",
    )
    shapes: tuple[ShapeItem, ...] = Field(
        (),
        max_length=MAX_ITEMS,
        validate_default=True,
        description="Sizes: N for a square product, a shape, a range of N, or rectangles.",
        examples=[[1024, {"m": 16, "n": 4096, "k": 4096}, {"start": 256, "stop": 4096, "count": 9, "scale": "log2"}]],
    )
    configs: Configs = Field(
        "default", description="Tile configs of every kernel: its default for the case, `all`, a list, or a grid."
    )
    dtypes: Annotated[tuple[DTypeName, ...], AfterValidator(lambda names: tuple(dict.fromkeys(names)))] = Field(
        ("float32",), min_length=1, description="Element types of the operands."
    )
    data: DataSpec = Field(default_factory=DataSpec, description="The operands.")
    timing: TimingSpec = Field(default_factory=TimingSpec, description="How cases are timed.")
    transfers: TransferSpec = Field(default_factory=TransferSpec, description="Copies.")
    energy: EnergySpec = Field(default_factory=EnergySpec, description="Energy.")
    verify: VerifyMode = Field(
        "freivalds",
        description="How products are checked, before and after timing. `freivalds`: in O(n²). `full`: every element "
        "against float64, too. `exact`: integer data, no difference allowed.",
    )
    baseline: Annotated[str, AfterValidator(lambda name: name if name == "none" else _auto_or_known(name))] = Field(
        "auto",
        description="Timed in every round beside the cases of the same shape: a kernel's name, `none`, or `auto`: the "
        "library's of the same element type and accuracy.",
    )
    fresh_process: bool = Field(
        False, description="Each case in a process of its own: slower, free of what earlier cases left behind."
    )
    tune: TuneSpec = Field(default_factory=TuneSpec, description="For `kind: tune`.")

    @field_validator("shapes", "verify")
    @classmethod
    def _suits(cls, value: Any, before: ValidationInfo) -> Any:
        if value == () and before.data.get("kind") != "ceilings":
            raise ValueError("there are none; name at least one size, such as 1024")
        data = before.data.get("data")
        if value == "exact" and data is not None and data.distribution not in ("integers", "zeros"):
            raise ValueError("exact takes data.distribution integers")
        return value


def _auto_or_known(name: str) -> str:
    return name if name == "auto" else _in_catalogue(name)
