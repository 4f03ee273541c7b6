"""The conclusions that follow from the figures, after those of the report's author."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from analysis.report.causes import by_cause, features_of
from analysis.report.document import Block, Heading, Items, Text, counted, percent, shape
from analysis.report.options import ReportOptions, paragraphs
from analysis.report.subject import Pair, Subject
from analysis.report.summary import best_at_each_size, is_ahead, share

ABREAST = 0.95  # of the baseline's speed
NAMED_CAUSES, MAX_NAMED = 3, 8


def _is_abreast(pair: Pair) -> bool:
    ratio = pair[0].fraction_of_baseline
    return ratio is not None and not is_ahead(pair) and (ratio.value >= ABREAST or ratio.hi >= 1)


def _is_behind(pair: Pair) -> bool:
    return not is_ahead(pair) and not _is_abreast(pair)


GROUPS: tuple[tuple[str, Callable[[Pair], bool]], ...] = (
    ("Hand-written kernels are faster than the baseline", is_ahead),
    ("Hand-written kernels are within 5 % of it, or as fast by what the samples tell", _is_abreast),
    ("The baseline is ahead by more than 5 %", _is_behind),
)


def conclusion(subject: Subject, options: ReportOptions) -> Iterator[Block]:
    own = [Text(text, is_own=True) for text in paragraphs(options.conclusion)]
    points = (*_beside_baseline(subject), *_fastest(subject), *_next_steps(subject))
    if own or points:
        yield Heading(2, "Conclusion")
        yield from own
    if points:
        yield Items(points)


def _beside_baseline(subject: Subject) -> Iterator[str]:
    held = sorted(best_at_each_size(subject), key=lambda pair: pair[1].size)
    for words, belongs in GROUPS:
        named = [f"{shape(pair[1])} ({pair[1].label}, {percent(share(pair))})" for pair in held if belongs(pair)]
        if named:
            more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
            yield f"{words} at {len(named)} of {counted(len(held), 'size')}: {', '.join(named[:MAX_NAMED])}{more}."


def _fastest(subject: Subject) -> Iterator[str]:
    wins = Counter(measurement.label for _, measurement in best_at_each_size(subject))
    if len(wins) > 1:
        named = ", ".join(f"{label} at {counted(count, 'size')}" for label, count in wins.most_common())
        yield f"Which of them is fastest depends on the size: {named}."


def _next_steps(subject: Subject) -> Iterator[str]:
    for cause, group in list(by_cause(features_of(subject.pairs)).items())[:NAMED_CAUSES]:
        yield f"{cause.name} ({counted(len(group), 'point')} off their curves). Next step: {cause.next_step}"
