"""The machine that a record was made on, and the cards and times of several records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from analysis.result_models import Results


def where(record: Mapping[str, Any]) -> str:
    at = record["environment"]
    versions = ", ".join(f"{name} {number}" for name, number in at["versions"].items() if number)
    return f"Recorded {at['recorded_at']} on {at['cpu']}, {at['cores']} cores, Python {at['python']} ({versions})."


def when(runs: Sequence[Results]) -> str:
    """The times of the first and the last, if they are more than an hour apart: kernels may be re-measured one
    by one."""
    ended = sorted(run.job.finished_at for run in runs if run.job.finished_at is not None)
    if not ended:
        return "at a time that is not known"
    first, last = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (ended[0], ended[-1]))
    if ended[-1] - ended[0] < timedelta(hours=1):
        return f"until {last}"
    return f"kernel by kernel, from {first} to {last}, each beside its baseline"


def cards(runs: Sequence[Results]) -> str:
    """A remark if the runs were on several cards of one model, which may hold different clocks."""
    count = len({run.device.get("uuid") for run in runs})
    if count == 1:
        return ""
    return (
        f"{count} cards of that model took part: a kernel and its baselines had the same one, so ratios are of one "
        "card each, but speeds of different kernels may be of different cards. "
    )
