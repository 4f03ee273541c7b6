"""What a run's products in tiles were, for its record: that there were any, and that faults met some in the middle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobs.models import JobEvent
from tests.chaos.driver import Struck


def tiles_of(
    records: Sequence[Mapping[str, Any]], lives: Mapping[str, Sequence[JobEvent]], struck: Iterable[Struck]
) -> dict[str, int]:
    """`records`: of the jobs whose products are so large, as the service has them."""
    return {
        "products": len(records),
        "tiles": sum(record["progress"]["total"] for record in records),
        "on_several_gpus": sum("GPUs" in (record["why"] or "") for record in records),
        "run_again": sum(record["attempt"] > 1 for record in records),
        "tiles_kept": sum(_kept(lives.get(record["id"], ())) for record in records),
        "faults_in_the_middle": sum(each.in_tiles for each in struck),
    }


def _kept(events: Iterable[JobEvent]) -> int:
    """Tiles that attempts found done."""
    kept, has_begun = 0, False
    for event in events:
        if event.event == "running":
            has_begun = True
        elif has_begun and event.event == "progress" and "found" in event.data:
            kept += event.data["found"]["tiles"]
            has_begun = False
    return kept
