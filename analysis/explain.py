"""Why a size is off the curve: differences in tiles, waves, alignment and cache from the size that it is compared with.

Each explanation is a sentence with its numbers. It is given only if the factor differs in the observed direction. A
disturbance of the measurement comes first, since it may explain everything. The other factors are ranked by the share
that they can explain: the logarithm of the ratio that the factor alone would cause, over that of the observed ratio.
Factors without a computable ratio, such as alignment and the L2 cache, come last, as possible causes. A factor that
explains less than a quarter is left out, and if no other is found, `why` says that nothing is large enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import log
from typing import Literal

from analysis.dips import Feature
from analysis.measurement import WIDEST_ACCESS_BYTES, Measurement, row_alignment, size_of
from analysis.roofline import moved_bytes
from analysis.tiling import Tiling, tiling
from kernels.catalog import BY_NAME
from kernels.model.kernel import LibraryKernel
from kernels.model.numerics import DTYPES

Factor = Literal["disturbance", "partial_tiles", "waves", "alignment", "l2"]
NOTABLE = 0.01  # smaller changes of a ratio get no sentence
NOTABLE_PARTIAL = 0.05  # the same for the fraction of partial tiles
LARGE_ENOUGH = 0.25  # the smallest share of the observed ratio that counts as an explanation


@dataclass(frozen=True, slots=True)
class Explanation:
    """One factor, its sentence, and GFLOPS at the point over the reference if only this factor counted
    (None: unknown)."""

    factor: Factor
    sentence: str
    expected_ratio: float | None
    share: float | None = None  # of the observed ratio that it can explain, 0 to 1; None: unknown


def why(feature: Feature) -> str:
    """The explanations as one text, each with its share; or the statement that none is large enough."""
    found = explain(feature)
    large = [one for one in found if one.share is None or one.share >= LARGE_ENOUGH]
    if large:
        return " ".join(map(_with_share, large))
    if not found:
        return "Nothing that is known of the two differs in a way that would explain it."
    first, share = found[0], 100 * (found[0].share or 0.0)
    return f"Nothing found that is large enough: {_WORDS[first.factor]} can account for {share:.0f} % of it at most."


def explain(feature: Feature) -> tuple[Explanation, ...]:
    """A disturbance, then the factors that are worse at the point than at its reference (better, for a peak), ranked by
    the share that they can explain."""
    worse = (feature.reference, feature.point) if feature.kind == "peak" else (feature.point, feature.reference)
    found = (factor(*worse, feature) for factor in _FACTORS)
    shared = [replace(one, share=_share(one, feature)) for one in found if one is not None]
    ranked = sorted(shared, key=lambda one: -1.0 if one.share is None else one.share, reverse=True)
    return (*_disturbances(feature), *ranked)


def _disturbances(feature: Feature) -> Iterator[Explanation]:
    for measurement in (feature.point, feature.reference):
        if not measurement.condition.is_clean:
            sentence = f"{_size(measurement)} is {measurement.condition.kind}: {measurement.condition.sentence}"
            yield Explanation("disturbance", sentence, None)


def _share(explanation: Explanation, feature: Feature) -> float | None:
    if explanation.expected_ratio is None:
        return None
    seen = log(feature.median_ratio)
    return min(1.0, max(0.0, log(explanation.expected_ratio) / seen)) if seen else 0.0


def _with_share(explanation: Explanation) -> str:
    if explanation.share is None:
        possible = "" if explanation.factor == "disturbance" else " How much that costs is not known."
        return f"{explanation.sentence}{possible}"
    return f"{explanation.sentence} That alone can account for {100 * explanation.share:.0f} % of it."


def _partial_tiles(worse: Measurement, better: Measurement, feature: Feature) -> Explanation | None:
    here, there = tiling(worse), tiling(better)
    if here is None or there is None:
        return None
    more_padding = here.useful / there.useful < 1 - NOTABLE
    if not more_padding and here.partial / here.tiles - there.partial / there.tiles < NOTABLE_PARTIAL:
        return None
    at, other = _both(feature)
    sentence = f"{_tiles_in_words(feature.point, at)}; {_tiles_in_words(feature.reference, other)}."
    return Explanation("partial_tiles", sentence, at.useful / other.useful)


def _waves(worse: Measurement, better: Measurement, feature: Feature) -> Explanation | None:
    """Compares waves of resident blocks. If these do not differ, compares the number of blocks on the busiest
    multiprocessor, because resident blocks share its units."""
    if worse.device.key != better.device.key:
        return None
    for by_waves in (False, True):
        here, there = _filled(worse, by_waves), _filled(better, by_waves)
        if here and there and here / there < 1 - NOTABLE:
            at, other = (_waves_in_words(one, by_waves) for one in (feature.point, feature.reference))
            ratio = there / here if feature.kind == "peak" else here / there
            return Explanation("waves", f"At {at}; at {other}.", ratio)
    return None


def _filled(measurement: Measurement, by_waves: bool) -> float | None:
    cut = tiling(measurement)
    return None if cut is None else cut.by_waves.filled if by_waves else cut.filled


def _alignment(worse: Measurement, better: Measurement, feature: Feature) -> Explanation | None:
    """Compares the alignment of rows in memory. For a library it also compares their length, because a library's choice
    of kernel depends on it whatever the padding."""
    if worse.device.device_class != "gpu":
        return None
    measures = ("begin at multiples of", _row_starts), ("have lengths that are multiples of", _row_lengths)
    for what, largest in measures:
        here, there = largest(worse), largest(better)
        if here is not None and there is not None and here < there:
            at, reference = feature.point, feature.reference
            sentence = (
                f"Rows {what} {largest(at)} bytes at {_size(at)} and of {largest(reference)} at {_size(reference)}; "
                f"accesses of {WIDEST_ACCESS_BYTES} bytes need {WIDEST_ACCESS_BYTES}."
            )
            return Explanation("alignment", sentence, None)
    return None


def _row_starts(measurement: Measurement) -> int | None:
    return measurement.row_alignment_bytes


def _row_lengths(measurement: Measurement) -> int | None:
    if not isinstance(BY_NAME.get(measurement.kernel or ""), LibraryKernel):
        return None
    return row_alignment((measurement.n | measurement.k) * DTYPES[measurement.dtype].itemsize)


def _l2(worse: Measurement, better: Measurement, feature: Feature) -> Explanation | None:
    room = feature.point.device.l2_bytes
    large, small = moved_bytes(worse, "compulsory") or 0, moved_bytes(better, "compulsory") or 0
    if room is None or not small <= room < large:
        return None
    sentence = (
        f"Operands and product take {large / 1e6:.1f} MB at {_size(worse)}, more than the L2 cache's "
        f"{room / 1e6:.1f} MB, and {small / 1e6:.1f} MB at {_size(better)}, which fit."
    )
    return Explanation("l2", sentence, None)


_WORDS: dict[Factor, str] = {"partial_tiles": "partial tiles", "waves": "waves"}
_FACTORS: tuple[Callable[[Measurement, Measurement, Feature], Explanation | None], ...] = (
    _partial_tiles,
    _waves,
    _alignment,
    _l2,
)


def _both(feature: Feature) -> tuple[Tiling, Tiling]:
    at, other = tiling(feature.point), tiling(feature.reference)
    assert at is not None and other is not None
    return at, other


def _size(measurement: Measurement) -> str:
    return size_of(measurement.m, measurement.n, measurement.k, measurement.batch)


def _tiles_in_words(measurement: Measurement, cut: Tiling) -> str:
    return (
        f"{_size(measurement)} takes {cut.tiles} tiles of {cut.tile.rows}×{cut.tile.columns}, {cut.down}×{cut.across}, "
        f"{cut.partial} of them partial, and {100 * (1 - cut.useful):.1f} % of their work is padding"
    )


def _waves_in_words(measurement: Measurement, by_waves: bool) -> str:
    """Waves of blocks in words, or blocks per multiprocessor if only these are known or meant."""
    cut = tiling(measurement)
    assert cut is not None
    cut = cut.by_waves if by_waves else cut
    assert cut.waves is not None and cut.filled is not None
    empty = f"{100 * (1 - cut.filled):.1f} %"
    if cut.resident is None:
        return (
            f"{_size(measurement)} {cut.multiprocessors} multiprocessors share {cut.blocks} blocks, {cut.waves:.1f} "
            f"each, so the busiest has {cut.passes} and {empty} of the turns stay empty"
        )
    return (
        f"{_size(measurement)} {cut.blocks} blocks on {cut.multiprocessors} multiprocessors that hold {cut.resident} "
        f"each are {cut.waves:.2f} waves, so {cut.passes} pass and {empty} of their places stay empty"
    )
