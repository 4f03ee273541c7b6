"""Chooses the plot that a page opens with, by what was measured."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from analysis.comparison.shares import shared_products
from analysis.curves import usable
from analysis.measurement import Measurement
from analysis.plots.configs import sweeps

FEW_SIZES, FEW_BARS = 4, 60
MANY_TYPES = 4
MANY_CONFIGS = 2  # configs per kernel from which configs are the question


def default_plot(available: Collection[str], found: Sequence[Measurement]) -> str:
    """The plot's name: the roofline for shapes of many forms, a heat map for configs, bars for few sizes, shares of the
    library's speed for many element types, otherwise speed by size; empty if there is no plot.
    """
    known = [each for each in found if usable(each)]
    if "roofline" in available and _is_oblong(known):
        return "roofline"
    if "heatmap" in available and _asks_for_configs(known):
        return "heatmap"
    products = shared_products(known)
    bars = sum(len(each.shares) for each in products)
    if "beside-library" in available and len({each.size for each in products}) <= FEW_SIZES and bars <= FEW_BARS:
        return "beside-library"
    if "fraction-of-baseline" in available and _has_many_types(known):
        return "fraction-of-baseline"
    return next(iter(available), "")


def _has_many_types(known: Sequence[Measurement]) -> bool:
    """Whether there are many element types: their speeds differ by orders of magnitude, but shares of the library's
    speed can be compared.
    """
    return len({each.dtype for each in known}) >= MANY_TYPES


def _is_oblong(known: Sequence[Measurement]) -> bool:
    """Whether most products are not square: then arithmetic intensity is the question."""
    products = {(each.m, each.n, each.k): each for each in known if each.batch == 1}
    if any(each.batch > 1 for each in known):
        return False
    return 2 * sum(1 for each in products.values() if not each.is_square) > len(products)


def _asks_for_configs(known: Sequence[Measurement]) -> bool:
    swept = sweeps(known)
    configs = sum(len(each.configs) for each in swept)
    return bool(swept) and configs >= MANY_CONFIGS * len({(each.label, each.dtype) for each in known})
