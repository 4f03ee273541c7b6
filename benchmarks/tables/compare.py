"""The section of docs/performance.md on how repeatable the recorded runs of a folder are, by the service's own
comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from analysis.comparison.compare import VERDICTS, Comparison, Verdict, compare, run_of
from analysis.report.document import config
from analysis.result_models import Results
from tools.markdown import table

JUDGED: tuple[Verdict, ...] = tuple(verdict for verdict in VERDICTS if verdict != "unusable")
LARGE = 4096.0  # N above which a launch takes so long that little disturbs it
AGAIN = "_again"  # suffix of the name of a benchmark's second run


def comparisons(found: Sequence[tuple[str, Results]]) -> Iterator[str]:
    """Runs by name. Each second run case by case, then the counts of all pairs."""
    yield "## How alike recorded runs are"
    yield (
        "Two runs hold the same case where kernel, config, type and shape are equal, whatever benchmark asked for it. "
        "[methodology.md](methodology.md#comparing-two-runs) says what the verdicts mean."
    )
    by_name = dict(found)
    for name, second in found:
        if name.endswith(AGAIN) and (first := by_name.get(name.removesuffix(AGAIN))) is not None:
            yield from _again(name, first, second)
    yield "Every two runs of the same case, by card and size:"
    yield _counts([results for _, results in found])


def _again(name: str, first: Results, second: Results) -> Iterator[str]:
    compared = compare(run_of(first), run_of(second))
    judged = [case for case in compared.cases if case.verdict in JUDGED]
    same = sum(case.verdict == "same" for case in judged)
    differences = ", ".join(f"`{one.name}`" for one in compared.environment)
    yield (
        f"`{name}` beside `{name.removesuffix(AGAIN)}`: {same} of {len(judged)} cases are the same "
        f"({same / len(judged):.0%}). What was not alike: {differences or 'nothing that is known'}."
    )
    yield table(
        ("kernel", "config", "type", "N", "speed, second over first", "verdict", "why"), _rows(compared)
    ).rstrip()


def _rows(compared: Comparison) -> list[tuple[str, ...]]:
    return [
        (
            f"`{case.before.label}`",
            config(case.before.config.items()),
            case.before.dtype,
            str(case.before.n),
            f"{case.ratio:.4f}",
            case.verdict,
            case.why,
        )
        for case in compared.cases
        if case.ratio is not None
    ]


def _counts(runs: Sequence[Results]) -> str:
    counts: dict[tuple[str, str], Counter[Verdict]] = {}
    for first, second in combinations(runs, 2):
        card = "the same card" if first.environment.get("uuid") == second.environment.get("uuid") else "two cards"
        for case in compare(run_of(first), run_of(second)).cases:
            size = f"N from {LARGE:.0f} on" if case.before.size >= LARGE else "smaller"
            counts.setdefault((card, size), Counter())[case.verdict] += 1
    rows = [
        (*key, str(sum(found[verdict] for verdict in JUDGED)), *(str(found[verdict]) for verdict in JUDGED))
        for key, found in sorted(counts.items())
    ]
    return table(("cards", "size", "pairs", *JUDGED), rows).rstrip()
