"""A few seconds of `make soak`: callers on every path get what is theirs, and samples see every process."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from jobs.ledger.totals import totals_of
from tests.soak.sample import processes_of, sample
from tests.soak.traffic import SHARES, Share, talk
from tests.support.interned import noted, noted_in
from tools.stack import Stack


def ended(stack: Stack) -> int:
    with stack.redis.client() as client:
        return sum(totals_of(client, "matmul:").ended.values())


def test_callers_on_every_path_get_what_is_theirs_and_leave_no_name_behind(stack: Stack, interned: Path) -> None:
    before = ended(stack)
    share = Share(stack.api_port, ["a key"], 5, 7, 100, 8, time.monotonic() + 300)
    tally = talk(share)
    assert tally.wrong == [] and tally.conversations == SHARES
    assert tally.jobs == 100 + SHARES["chained"]
    assert ended(stack) - before == tally.jobs
    assert noted(interned) == []


def test_a_name_that_is_interned_is_noted(tmp_path: Path) -> None:
    with noted_in(tmp_path / "names"):
        subprocess.run([sys.executable, "-c", "import sys; sys.intern('w_' + 16 * '0f')"], check=True)
    assert [line.partition(" ")[2] for line in noted(tmp_path / "names")] == [f"w_{16 * '0f'}"]


def test_a_sample_has_every_process(stack: Stack) -> None:
    processes = processes_of(stack)
    with stack.redis.client() as client:
        found = sample(0.0, 0, processes, client, Path(stack.environment["MATMUL_STORE_DIR"]))
    assert set(found.processes) == {"API", "worker 0", "worker 0's child"}
    assert all(0 < each.own_kib < each.rss_kib and each.descriptors > 3 for each in found.processes.values())
    assert found.keys > 0 and found.redis_kib > 0
