"""Labels of result fields with their units, in groups, for menus and chart axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from analysis.tables import COLUMNS

AS_CATEGORIES = ", as categories"  # only in menus
GROUPS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "Size": {
            "n": "Matrix size N",
            "size": f"Matrix size{AS_CATEGORIES}",
            "m": "Rows m",
            "k": "Inner dimension k",
            "batch": "Products in a batch",
            "flops": "Operations, FLOP",
        },
        "What": {
            "kernel": "Kernel",
            "config": "Tile config",
            "dtype": "Element type",
            "accuracy": "Accuracy class",
            "condition": "Condition",
        },
        "Speed": {
            "gflops": "Speed, GFLOP/s",
            "fraction_of_library": "Speed over the library's best",
            "fraction_of_baseline": "Speed over the baseline's",
            "speedup_vs_naive": "Speed-up over naive",
            "fraction_of_roof": "Share of the roof",
            "gflops_per_w": "GFLOP/s per watt",
            "gflops_per_ghz": "GFLOP/s per GHz",
        },
        "Time": {
            "kernel_ms": "Kernel time, ms",
            "rel_iqr": "Spread of the samples (IQR / median)",
            "h2d_ms": "Copy in, ms",
            "d2h_ms": "Copy out, ms",
            "compile_ms": "Compilation, ms",
        },
        "Accuracy": {
            "error_vs_float64": "Relative error against float64",
            "worst_row_error": "Relative error of the worst row",
        },
        "Launch and device": {
            "occupancy": "Occupancy, 0 to 1",
            "registers": "Registers of a thread",
            "waves": "Waves of blocks",
            "ai_tile_flop_per_byte": "FLOP per byte that tiles read",
            "ai_min_flop_per_byte": "FLOP per byte, each matrix moved once",
            "sm_clock_mhz": "SM clock, MHz",
            "power_w_mean": "Power, W",
            "temp_c_max": "Temperature, °C",
        },
    }
)
WORDS: Mapping[str, str] = MappingProxyType({name: words for group in GROUPS.values() for name, words in group.items()})
REST = "Every field, by its name in the CSV"


def words_of(field: str) -> str:
    """The field's label; its name if it has no label."""
    return WORDS.get(field, field)


def menu(allowed: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """The groups of an axis menu with the allowed fields; fields without a label come last."""
    known = {
        group: {name: words for name, words in fields.items() if name in allowed} for group, fields in GROUPS.items()
    }
    rest = {name: name for name in COLUMNS if name in allowed and name not in WORDS}
    return {group: fields for group, fields in {**known, REST: rest}.items() if fields}
