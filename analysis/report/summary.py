"""The cover of a report, and its summary: five sentences that follow from the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median

from analysis.report import tables
from analysis.report.causes import by_cause, features_of
from analysis.report.document import Block, Cover, Heading, Text, counted, percent, shape, small
from analysis.report.options import ReportOptions
from analysis.report.subject import Pair, Subject, beside_disturbed
from jobs.states import JobState


def title(subject: Subject, options: ReportOptions) -> str:
    if options.title:
        return options.title
    device = subject.device.get("name")
    return subject.title if not device or _names(subject.title, device) else f"{subject.title} on {device}"


def _names(title: str, device: str) -> bool:
    """Whether a title names the device's model, such as the P100 of an NVIDIA Tesla P100."""
    models = [word for word in device.split() if any(map(str.isdigit, word))]
    return device in title or any(model in title.replace(",", " ").split() for model in models)


def cover(subject: Subject, options: ReportOptions) -> Cover:
    rows = (
        ("Question", options.question),
        ("Author", options.author or ", ".join(subject.authors)),
        ("Device", subject.device.get("name")),
        ("Measured", subject.date),
        ("Source", subject.source),
    )
    return Cover(title(subject, options), tuple((name, value) for name, value in rows if value))


def summary(subject: Subject) -> Iterator[Block]:
    yield Heading(2, "Summary")
    yield Text(" ".join(sentences(subject)))


def unfinished(subject: Subject) -> Iterator[Block]:
    """A sentence that comes first if the results are incomplete."""
    results = subject.results
    if results is not None and not results.complete:
        why = results.warnings[0] if results.warnings else f"The job is {results.job.state}."
        yield Text(f"Not complete. {why}", strong=True)


def sentences(subject: Subject) -> Iterator[str]:
    """What was measured, which kernel was fastest, how it compares with the library, what is unusual, and how reliable
    the figures are."""
    yield _measured(subject)
    if (fastest := tables.headline(subject.pairs)) is not None:
        yield fastest
    if (beside := _beside_library(subject)) is not None:
        yield beside
    if (off := _off(subject)) is not None:
        yield off
    if subject.pairs:
        yield _trust(subject)


def _measured(subject: Subject) -> str:
    results, device = subject.results, subject.device.get("name") or "a device without a name"
    if not subject.pairs:
        return f"{counted(len(results.ceilings) if results else 0, 'roof')} of {device} measured."
    kernels = len({m.label for _, m in subject.pairs if m.status == "ok"} or {m.label for _, m in subject.pairs})
    sizes = list(dict.fromkeys(shape(m) for _, m in sorted(subject.pairs, key=lambda pair: pair[1].problem.flops)))
    extent = f"{len(sizes)} sizes from {sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else f"size {sizes[0]}"
    dtypes = ", ".join(dict.fromkeys(measurement.dtype for _, measurement in subject.pairs))
    rounds, attempts = (results.spec.timing.rounds, len(results.attempts)) if results else (1, 1)
    how = f" in {rounds} rounds" if rounds > 1 else ""
    how += f", {attempts} attempts" if attempts > 1 else ""
    state = "" if results is None or results.job.state is JobState.SUCCEEDED else f"; the job is {results.job.state}"
    return (
        f"{counted(kernels, 'kernel')} {'was' if kernels == 1 else 'were'} measured on {dtypes} at {extent} on "
        f"{device}: {counted(len(subject.pairs), 'case')}{how}{state}."
    )


def best_at_each_size(subject: Subject) -> list[Pair]:
    """The fastest hand-written kernel for each type, accuracy and size that has a clean figure, and a baseline that has
    one; the smallest share of the baseline first."""
    found: dict[tuple[str | None, ...], Pair] = {}
    doubtful = beside_disturbed(subject.pairs)
    for pair in subject.own:
        key = (pair[1].dtype, pair[1].accuracy, shape(pair[1]))
        is_held = pair[0].fraction_of_baseline and pair[0].case not in doubtful
        if is_held and (key not in found or (pair[1].gflops or 0) > (found[key][1].gflops or 0)):
            found[key] = pair
    return sorted(found.values(), key=share)


def share(pair: Pair) -> float:
    """The share of the baseline's speed."""
    assert pair[0].fraction_of_baseline
    return pair[0].fraction_of_baseline.value


def is_ahead(pair: Pair) -> bool:
    """Whether it is faster than the baseline, whatever the samples leave open."""
    ratio = pair[0].fraction_of_baseline
    return ratio is not None and ratio.lo > 1


def _beside_library(subject: Subject) -> str | None:
    held = best_at_each_size(subject)
    if not held:
        return None
    if len(held) == 1:
        return f"The fastest of them reaches {percent(share(held[0]))} of the baseline's speed."
    low, high = held[0], held[-1]
    ahead = sum(map(is_ahead, held))
    return (
        f"The fastest of them at each size reaches {percent(share(low))} of the baseline's speed "
        f"({low[1].label} at {shape(low[1])}) to {percent(share(high))} ({high[1].label} at {shape(high[1])}), "
        f"with a median of {percent(median(map(share, held)))}, and is ahead at {ahead} of {len(held)}."
    )


def _off(subject: Subject) -> str | None:
    found = features_of(subject.pairs)
    if not found:
        return None
    groups = by_cause(found)
    largest = next(iter(groups))
    explained = sum(main is not None for group in groups.values() for _, main in group)
    mostly = f", most often this: {largest.name[0].lower()}{largest.name[1:]}" if explained else ""
    verb = "lies" if len(found) == 1 else "lie"
    return (
        f"{counted(len(found), 'point')} {verb} 5 % or more off the course of the curves; a cause that can account for "
        f"it was found for {explained or 'none'}{mostly}."
    )


def _trust(subject: Subject) -> str:
    if subject.is_quoted:
        return "The source does not say whether anything disturbed its measurements."
    clean = len(subject.clean)
    without = len(subject.pairs) - clean - len(subject.disturbed)
    kinds = Counter(measurement.condition.kind for _, measurement in subject.disturbed)
    parts = [f"{count} {kind}" for kind, count in kinds.items()] + ([f"{without} without figures"] if without else [])
    counts = f" ({', '.join(parts)})" if parts else ""
    again = "" if clean else " Measure again while nothing else uses the device, or with more samples."
    errors = [measurement.error_vs_float64 for _, measurement in subject.clean if measurement.error_vs_float64]
    worst = f"; the largest error against float64 is {small(max(errors))}" if errors else ""
    verb = "is" if clean == 1 else "are"
    return f"Of {counted(len(subject.pairs), 'case')} {clean} {verb} clean{counts}{worst}.{again}"
