"""Benchmarks by name: what each measures, and which report's experiments it repeats. Data; a caller may override any
field.

The reports are those of GET /v1/published; configs are theirs, in the catalogue's parameters. They are written for a
GPU's kernels. If the device is a CPU, `on_cpu` replaces the fields that make no sense there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from jobs.errors import UnknownPreset
from kernels.model.kernel import DeviceClass

Fields = Mapping[str, Any]  # of a BenchmarkSpec, as JSON has them

PARTS = ("data", "timing", "transfers", "energy", "tune")  # objects of a spec, overridden field by field
TITLED = ("kernels", "shapes", "configs", "dtypes")  # what a preset's summary speaks of
NOTHING: Fields = MappingProxyType({})
LIBRARY: Fields = {"kernels": "ladder", "configs": "default"}  # on a CPU the ladder is its BLAS

SIX_SIZES = [256, 512, 1024, 1025, 2047, 2048]
TWENTY_SIZES = [
    *(255, 256, 257, 400, 480, 511, 512, 513, 640, 650, 768, 800, 833, 960, 1023, 1024, 1025, 1185, 1200, 1376, 1440),
    *(1500, 1600, 1695, 1800, 1824, 1952, 2000, 2047, 2048, 2049, 4095, 4096, 4097),
]
SQUARE_TILES = [{"tile": 8}, {"tile": 16}, {"tile": 32}]
TILE_OF_000 = {"block_m": 64, "block_n": 64, "thread_m": 4, "thread_n": 4}
TILES_OF_000 = [
    {"block_m": 32, "block_n": 32, "thread_m": 2, "thread_n": 2},
    {"block_m": 64, "block_n": 64, "thread_m": 2, "thread_n": 2},
    TILE_OF_000,
    {"block_m": 64, "block_n": 64, "thread_m": 8, "thread_n": 8},
]
TILE_OF_002 = {"block_m": 128, "block_n": 128, "block_k": 64, "thread_m": 16, "thread_n": 4}
TILES_OF_002 = [
    TILE_OF_002,
    {"block_m": 96, "block_n": 96, "block_k": 64, "thread_m": 12, "thread_n": 3},
    {"block_m": 128, "block_n": 128, "block_k": 64, "thread_m": 16, "thread_n": 8},
    {"block_m": 96, "block_n": 96, "block_k": 64, "thread_m": 6, "thread_n": 6},
    {"block_m": 64, "block_n": 64, "block_k": 128, "thread_m": 4, "thread_n": 4},
    {"block_m": 48, "block_n": 48, "block_k": 128, "thread_m": 3, "thread_n": 3},
    {"block_m": 128, "block_n": 128, "block_k": 64, "thread_m": 8, "thread_n": 4},
]
BLOCKS_OF_001 = [{"block_m": 16, "block_n": 16}, {"block_m": 32, "block_n": 32}]
TILE_OF_003 = {"block_m": 128, "block_n": 128, "block_k": 8, "thread_m": 8, "thread_n": 8}
TILE_OF_004 = {"block_m": 64, "block_n": 64, "block_k": 16, "thread_m": 4, "thread_n": 4}

SMALL_PRODUCTS = [
    *(64, 100, 127, 128, 192, 256, 257, 384, 511, 512),
    *({"m": m, "n": n, "k": 8192} for m, n in ((16, 8192), (8192, 16), (64, 64), (17, 8191), (8191, 17))),
    *({"m": n, "n": n, "k": n, "batch": batch} for n, batch in ((32, 4096), (64, 1024), (63, 1024), (128, 256))),
]
CLUSTER_NAMES = ("block_m", "block_n", "thread_m", "thread_n", "slices", "block_k", "cluster", "items")
CLUSTERS = [
    dict(zip(CLUSTER_NAMES, values, strict=True))
    for values in (
        *((16, 16, 4, 4, 8, block_k, cluster, 1) for block_k, cluster in ((64, 1), (32, 2), (64, 8))),
        *((32, 32, 4, 4, 4, 32, cluster, 1) for cluster in (1, 2, 4)),
        (32, 64, 4, 4, 2, 32, 2, 1),
        *((64, 64, 4, 4, 1, 32, cluster, items) for cluster, items in ((2, 1), (1, 1), (1, 2))),
        *((64, 64, 8, 4, slices, 32, cluster, 1) for slices, cluster in ((2, 1), (2, 2), (4, 2))),
        *((16, 128, 8, 4, 4, block_k, cluster, 1) for block_k, cluster in ((32, 4), (32, 8), (64, 4))),
        *((128, 16, 4, 8, 4, block_k, cluster, 1) for block_k, cluster in ((64, 4), (64, 8), (32, 4))),
        *((32, 32, 4, 4, 1, 32, 1, items) for items in (2, 4, 8)),
    )
]


def _axis(kernel: str, *configs: Fields) -> Fields:
    return {"kernel": kernel, "configs": list(configs)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A benchmark with a name."""

    name: str
    summary: str
    redoes: str | None  # which report, and what of it
    cpu_summary: str  # of what it measures on a CPU, and its title there
    spec: Fields
    on_cpu: Fields = field(default_factory=lambda: LIBRARY)

    def summary_on(self, device_class: DeviceClass) -> str:
        """What the preset measures on such a device, in one line."""
        return self.cpu_summary if device_class == "cpu" else self.summary

    def fields(self, overrides: Fields = NOTHING, *, on_cpu: bool = False) -> dict[str, Any]:
        """All fields of the spec. An override replaces a field; in the objects of PARTS it replaces only the fields
        that it names.
        """
        changed = [name for name in TITLED if name in overrides]
        title = self.summary_on("cpu" if on_cpu else "gpu")
        if changed:  # the summary is no longer true of it
            title = f"Preset {self.name} with other {' and '.join(changed)}"
        whole = {"preset": self.name, "title": title, **self.spec, **(self.on_cpu if on_cpu else NOTHING)}
        for name, value in overrides.items():
            is_part = name in PARTS and isinstance(value, Mapping)
            whole[name] = {**whole.get(name, {}), **value} if is_part else value
        return whole


_PRESETS = (
    Preset(
        name="quick",
        summary="A first look: a few rungs at four small sizes",
        redoes=None,
        cpu_summary="A first look: the CPU's BLAS at four small sizes",
        spec={
            "kernels": ["naive", "shared_tiled", "register_tiled", "warp_tiled"],
            "shapes": [128, 256, 512, 1024],
            "timing": {
                "rounds": 1,
                "warmup_ms": 50.0,
                "min_samples": 5,
                "max_samples": 20,
                "min_time_s": 0.02,
                "timeout_s": 1.0,
            },
            "transfers": {"enabled": True},
        },
    ),
    Preset(
        name="grade",
        summary="Every rung of the ladder at six sizes, three of them no power of two",
        redoes="000: its grade.sh, the sizes that each version was timed and tested at",
        cpu_summary="The CPU's BLAS at six sizes, three of them no power of two",
        spec={"kernels": "ladder", "shapes": SIX_SIZES},
    ),
    Preset(
        name="small-products",
        summary="Small, skinny and batched products: tiles, slices and clusters of blocks that share out k",
        redoes=None,
        cpu_summary="Small, skinny and batched products by the CPU's BLAS",
        spec={
            "kernels": ["register_tiled", "warp_tiled", "split_k", _axis("cluster_split_k", *CLUSTERS)],
            "shapes": SMALL_PRODUCTS,
            "timing": {
                "rounds": 1,
                "warmup_ms": 20.0,
                "min_samples": 5,
                "max_samples": 20,
                "min_time_s": 0.02,
                "timeout_s": 1.0,
            },
        },
    ),
    Preset(
        name="block-sizes",
        summary="Block and tile sizes of 8, 16 and 32, kernel by kernel",
        redoes="000, Q2: thread blocks of 8, 16 and 32; 001: six versions with blocks of 16 and 32",
        cpu_summary="The CPU's BLAS at six sizes; it has no blocks to choose",
        spec={
            "kernels": [
                _axis("naive", *BLOCKS_OF_001),
                _axis("unrolled", *({**block, "unroll": 4} for block in BLOCKS_OF_001)),
                _axis("coarsened", {"block_m": 16, "block_n": 128}, {"block_m": 32, "block_n": 256}),
                _axis("shared_tiled", *SQUARE_TILES),
                _axis("shared_tiled_privatized", *({**t, "thread_n": n} for t in SQUARE_TILES for n in (2, 4))),
                _axis("shared_tiled_prefetch", *({**tile, "padded": 1} for tile in SQUARE_TILES)),
                _axis("register_tiled", *TILES_OF_000),
            ],
            "shapes": SIX_SIZES,
        },
    ),
    Preset(
        name="twenty-sizes",
        summary="GFLOPS by N at 34 sizes from 255 to 4097, for the dips and peaks",
        redoes="000, Q4, and 002, analysis: all sizes of both, each with its best register tile, beside the naive one",
        cpu_summary="GFLOPS of the CPU's BLAS by N at 34 sizes from 255 to 4097, for the dips and peaks",
        spec={
            "kernels": [_axis("naive", {}), _axis("register_tiled", TILE_OF_000, TILE_OF_002)],
            "shapes": TWENTY_SIZES,
        },
    ),
    Preset(
        name="config-grid",
        summary="Seven register tiles at seven sizes",
        redoes="002, result: its table of seven configs at seven sizes, and the naive kernel that it is compared with",
        cpu_summary="The CPU's BLAS at seven sizes; it has no tiles to choose",
        spec={
            "kernels": [_axis("naive", {}), _axis("register_tiled", *TILES_OF_002)],
            "shapes": [256, 257, 512, 1024, 2048, 4096, 4097],
        },
    ),
    Preset(
        name="ladder",
        summary="The whole ladder at 8192 with copies, in floats and in integers",
        redoes="003: every rung, with its tile sizes and its transfers, as float and as int; its tensor core part by "
        "the library's, for the wmma kernel takes neither type",
        cpu_summary="The CPU's BLAS at 2048, in floats and in integers",
        spec={
            "kernels": [
                "naive_uncoalesced",
                _axis("naive", {}, {"block_m": 32, "block_n": 32}),
                _axis("shared_tiled", {"tile": 16}, {"tile": 32}),
                _axis("register_tiled_rows", {"block_m": 64, "block_n": 64, "block_k": 8, "thread_m": 8}),
                _axis("register_tiled", TILE_OF_003),
                _axis("vectorized", TILE_OF_003),
                "warp_tiled",
                "pipelined",
                "cublas",
                "cublas_bf16",
            ],
            "shapes": [8192],
            "dtypes": ["float32", "int32"],
            "transfers": {"enabled": True, "pageable": True},
        },
        on_cpu={**LIBRARY, "shapes": [2048]},
    ),
    Preset(
        name="levels",
        summary="Three levels of tiling at 1024, 8192 and 16384",
        redoes="004: shared tiles of 16 and of 32, and a 4×4 register tile, over the naive kernel",
        cpu_summary="The CPU's BLAS at 512, 1024 and 2048",
        spec={
            "kernels": [
                _axis("naive", {}),
                _axis("shared_tiled", {"tile": 16}, {"tile": 32}),
                _axis("register_tiled", TILE_OF_004),
            ],
            "shapes": [1024, 8192, 16384],
        },
        on_cpu={**LIBRARY, "shapes": [512, 1024, 2048]},
    ),
    Preset(
        name="roofline",
        summary="Five rungs over shapes of rising intensity, from one row to 8192 square",
        redoes="000, Q5, 002, Q5, and 004, roofline: with points on both sides of the ridge",
        cpu_summary="The CPU's BLAS over shapes of rising intensity, from one row to 2048 square",
        spec={
            "kernels": ["naive", "shared_tiled", "register_tiled", "warp_tiled", "split_k"],
            "shapes": [
                *({"m": m, "n": 8192, "k": 8192} for m in (1, 4, 16, 64, 256)),
                *({"m": 8192, "n": 8192, "k": k} for k in (1, 4, 16, 64, 256)),
                *(64, 128, 256, 512, 1024, 2048, 4096, 8192),
            ],
        },
        on_cpu={
            **LIBRARY,
            "shapes": [
                *({"m": m, "n": 2048, "k": 2048} for m in (1, 4, 16, 64, 256)),
                *({"m": 2048, "n": 2048, "k": k} for k in (1, 4, 16, 64, 256)),
                *(64, 128, 256, 512, 1024, 2048),
            ],
        },
    ),
    Preset(
        name="ceilings",
        summary="The device's own roofs: memory, caches, arithmetic, copies",
        redoes="the device tables of 000 to 004, measured instead of looked up",
        cpu_summary="The CPU's own roofs: memory and arithmetic",
        spec={"kind": "ceilings"},
        on_cpu=NOTHING,
    ),
    Preset(
        name="tune",
        summary="The best configs of the fastest kernels: square, odd and skinny products",
        redoes="002, its code generator and its choice of a config for each N",
        cpu_summary="The CPU's BLAS at 256, 512 and 1024; it has no configs to choose",
        spec={
            "kind": "tune",
            "kernels": ["register_tiled", "warp_tiled", "pipelined", "split_k"],
            "shapes": [
                *(256, 512, 1024, 1025, 2047, 4096),
                *({"m": m, "n": n, "k": 8192} for m, n in ((16, 8192), (8192, 16), (64, 64))),
            ],
            "tune": {"budget": 60},
        },
        on_cpu={**LIBRARY, "shapes": [256, 512, 1024]},
    ),
)
PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _PRESETS}


def find_preset(name: object) -> Preset:
    """The preset of that name. Raises UnknownPreset, which lists the valid names."""
    preset = PRESETS.get(name) if isinstance(name, str) else None
    if preset is None:
        raise UnknownPreset(f"There is no preset {str(name)[:40]!r}; there are: {', '.join(PRESETS)}.", field="preset")
    return preset
