"""Points off the course of their curves, grouped by the cause that explains most of the deviation, each with a next
step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from analysis.curves import curves
from analysis.dips import Feature, features
from analysis.explain import LARGE_ENOUGH, Explanation, Factor, explain
from analysis.report.document import UNKNOWN, Block, Heading, Table, Text, shape
from analysis.report.subject import Pair


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of a point off its curve, and what to do about it."""

    name: str
    next_step: str


CAUSES: dict[Factor | None, Cause] = {
    "disturbance": Cause(
        "The measurement was disturbed", "measure these cases again while nothing else uses the device."
    ),
    "waves": Cause(
        "A last wave of blocks that is nearly empty",
        "try a smaller tile, or a kernel that shares out k (split_k, stream-K), so that blocks fill whole waves.",
    ),
    "partial_tiles": Cause(
        "Partial tiles, whose padding is computed and thrown away",
        "search for a tile that fits these sizes (preset tune), or pad the operands.",
    ),
    "alignment": Cause(
        "Rows that are less well aligned", "pad rows to multiples of 16 bytes, and see whether the point comes back."
    ),
    "l2": Cause("Operands that no longer fit the L2 cache", "choose a kernel with larger tiles, which reads less."),
    None: Cause(
        "No cause found that is large enough",
        "profile one of these sizes beside its neighbour; edge handling at odd sizes is the first suspect.",
    ),
}


def features_of(pairs: Sequence[Pair]) -> list[Feature]:
    """Features of square products: others differ in aspect ratio, not only in size."""
    square = [measurement for _, measurement in pairs if measurement.is_square]
    return [feature for curve in curves(square) for feature in features(curve)]


def main_cause(feature: Feature) -> Explanation | None:
    """The first cause that is large enough, or may be."""
    large = (one for one in explain(feature) if one.share is None or one.share >= LARGE_ENOUGH)
    return next(large, None)


def by_cause(found: Iterable[Feature]) -> dict[Cause, list[tuple[Feature, Explanation | None]]]:
    """Groups by cause, the largest first; points without a cause come last."""
    groups: dict[Factor | None, list[tuple[Feature, Explanation | None]]] = {}
    for feature in found:
        main = main_cause(feature)
        groups.setdefault(main.factor if main else None, []).append((feature, main))
    ordered = sorted(groups, key=lambda factor: (factor is None, -len(groups[factor])))
    return {CAUSES[factor]: groups[factor] for factor in ordered}


def dips(pairs: Sequence[Pair]) -> Iterator[Block]:
    """A heading, a sentence with the next step, and a table for each cause."""
    found = features_of(pairs)
    if not found:
        return
    yield Heading(2, "Findings")
    yield Text(
        "Sizes that lie 5 % or more off the course of their curve, grouped by the cause that can account for most of "
        "it. A share is the part of what is seen that this cause alone would make."
    )
    for cause, group in by_cause(found).items():
        yield Heading(3, cause.name)
        with_sentence = next((main for _, main in group if main is not None), None)
        yield Text(f"{f'For example: {with_sentence.sentence} ' if with_sentence else ''}Next step: {cause.next_step}")
        head = ("kernel", "what", "N", "beside", "GFLOPS off by", "share")
        rows = tuple(_row(feature, main) for feature, main in group)
        yield Table(f"{cause.name}: {len(rows)} of {len(found)} points", head, rows, words=True)


def _row(feature: Feature, main: Explanation | None) -> tuple[str, ...]:
    best = main or next(iter(explain(feature)), None)
    share = UNKNOWN if best is None or best.share is None else f"{100 * best.share:.0f} %"
    point = feature.point
    return (
        f"{point.label}, {point.dtype}",
        feature.kind,
        shape(point),
        shape(feature.reference),
        off(feature),
        share,
    )


def off(feature: Feature) -> str:
    """For example '49 % slower at least (median 72 %)': the bound from the nearer end of its interval, and
    the median."""
    way = "faster" if feature.ratio > 1 else "slower"
    at_least, median = (f"{100 * abs(ratio - 1):.0f} %" for ratio in (feature.ratio, feature.median_ratio))
    return f"{at_least} {way}" if at_least == median else f"at least {at_least} {way} (median {median})"
