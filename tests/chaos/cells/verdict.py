"""What the answers of a run say: whether a cell's fault was seen by that cell's callers alone, and as it should be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tests.chaos.cells.faults import KINDS, NGINX, Struck
from tests.chaos.cells.traffic import Answer

AFTER_S = 10.0  # that a cell's own APIs may still say 503 after it is ready: connections to Valkey are replaced
CALM = "none"
CELL_DOWN = "cell_unavailable"
# Of two phases of a fault: until it is mended, and until the cell is ready, which takes processors of this machine.
PHASES = ("down", "back")

Figures = dict[str, dict[str, Any]]


def defects(answers: Iterable[Answer], struck: Sequence[Struck]) -> Iterator[str]:
    """A line for each answer that no fault of its own cell, or of nginx, excuses."""
    for answer in answers:
        own = [each for each in struck if each.at in (answer.cell, NGINX)]
        if what := _defect(answer, own):
            others = [f"{each.kind} at {each.at}" for each in _during(answer, struck)]
            yield f"cell {answer.cell}, after {answer.ended - answer.began:.2f} s: {what}; meanwhile: {others}"


def _during(answer: Answer, struck: Sequence[Struck], after_s: float = 0.0) -> list[Struck]:
    return [each for each in struck if answer.began < each.ended_at + after_s and answer.ended > each.began_at]


def _defect(answer: Answer, own: Sequence[Struck]) -> str:
    """Empty where there is none."""
    over = _during(answer, own)
    if not answer.status:
        excused = any(answer.said in KINDS[each.kind].excuses for each in over)
        return "" if excused else f"no answer, {answer.said}"
    what = f"{answer.status} {answer.said}".strip()
    if answer.told != answer.cell:
        return f"{what} of cell {answer.told or 'unknown'}"
    dead = [each for each in over if each.struck_at < answer.began and answer.ended < each.mended_at]
    if any(KINDS[each.kind].is_death for each in dead) and answer.said != CELL_DOWN:
        return f"{what} of a dead cell"
    if answer.status < 500 and answer.status != 429:
        return ""
    if answer.status != 503 or not answer.retry_after:
        return what
    if answer.said == CELL_DOWN:
        return "" if any(KINDS[each.kind].silences for each in over) else what
    return "" if _during(answer, own, AFTER_S) else what


def by_kind(answers: Sequence[Answer], struck: Sequence[Struck]) -> Figures:
    """Figures for each kind of fault, and for the time without any (`none`)."""
    found = {kind: _figures(answers, struck, kind) for kind in KINDS if any(each.kind == kind for each in struck)}
    return found | {CALM: _speed(each for each in answers if not _during(each, struck) and _is_of_others(each, struck))}


def _figures(answers: Sequence[Answer], struck: Sequence[Struck], kind: str) -> dict[str, Any]:
    """`own`: what became of requests to the cell that was struck. `down` and `back`: answers of the others, in both
    phases. `back_s`: from the mending to the first good answer, at most."""
    own: Counter[str] = Counter()
    others: dict[str, list[Answer]] = {phase: [] for phase in PHASES}
    back_s = []
    some = [each for each in struck if each.kind == kind]
    for fault in some:
        during = [answer for answer in answers if fault.began_at <= answer.began <= fault.ended_at]
        for answer in during:
            if fault.at == NGINX or (fault.at == answer.cell and not _is_of_nginx(answer, struck)):
                own[_outcome(answer)] += 1
            elif _is_of_others(answer, struck):
                others["down" if answer.began < fault.mended_at else "back"].append(answer)
        good = [each.ended for each in answers if each.began >= fault.mended_at and _is_own_and_good(each, fault)]
        back_s.append(min(good, default=fault.ended_at) - fault.mended_at)
    return {
        "times": len(some),
        "at_risk": sum(each.at_risk for each in some),
        "seconds": round(sum(each.ended_at - each.began_at for each in some), 1),
        "own": dict(own.most_common()),
        "back_s": round(max(back_s), 2),
        **{phase: _speed(given) for phase, given in others.items() if given},
    }


def slowest_s(figures: Figures) -> float:
    """Of the answers of cells that no fault struck, in seconds."""
    speeds = [figures[CALM], *(each[phase] for each in figures.values() for phase in PHASES if phase in each)]
    return float(max(each["max_ms"] for each in speeds)) / 1e3


def _is_of_nginx(answer: Answer, struck: Sequence[Struck]) -> bool:
    return any(each.at == NGINX for each in _during(answer, struck))


def _is_of_others(answer: Answer, struck: Sequence[Struck]) -> bool:
    """Whether nginx is as it should be, and its cell too, which also was a moment ago."""
    own = any(each.at == answer.cell for each in _during(answer, struck, AFTER_S))
    return not own and not _is_of_nginx(answer, struck)


def _is_own_and_good(answer: Answer, fault: Struck) -> bool:
    return fault.at in (answer.cell, NGINX) and 200 <= answer.status < 300


def _outcome(answer: Answer) -> str:
    if not answer.status:
        return answer.said
    return "answered" if answer.status < 500 else CELL_DOWN if answer.said == CELL_DOWN else "503 of its API"


def _speed(answers: Iterable[Answer]) -> dict[str, Any]:
    """Of what was not asked to wait for a product."""
    given = list(answers)
    errors = sum(not answer.status or answer.status >= 500 for answer in given)
    times = [1e3 * (answer.ended - answer.began) for answer in given if answer.status and not answer.waits]
    p50, p99 = np.percentile(times, [50, 99]) if times else (0.0, 0.0)
    slowest = {"p50_ms": float(p50), "p99_ms": float(p99), "max_ms": max(times, default=0.0)}
    return {"answers": len(given), "errors": errors} | {name: round(value, 1) for name, value in slowest.items()}
