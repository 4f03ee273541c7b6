"""What docs/reliability.md says of the recorded `make machine`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.tables.where import where
from tools.markdown import table


def machine(results: Path) -> Iterator[str]:
    """A section; nothing where nothing is recorded."""
    if not (path := results / "machine.json").exists():
        return
    record = json.loads(path.read_text())
    yield where(record)
    calls = sum(sum(counts.values()) for counts in record["calls"].values())
    yield (
        f"{record['steps']:,} steps in {record['lives']:,} lives, {calls:,} calls of each ledger, from seed "
        f"{record['seed']}: the ledgers agreed on each answer, and every promise held after each step. A worker left "
        f"{record['left_to_others']:,} jobs to others because it had made their products wrong."
    )
    yield table(
        ("state of the job", "cancels that took effect", "that changed nothing"),
        [
            (state, f"{counts['took_effect']:,}", f"{counts['changed_nothing']:,}")
            for state, counts in record["cancels"].items()
        ],
    ).rstrip()
