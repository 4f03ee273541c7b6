"""What a soak says of its samples: growth is found beneath noise and jumps, and noise is not called growth."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import psutil
import pytest

from benchmarks.tables.reliability.soak import soak
from tests.soak.__main__ import document, main
from tests.soak.run import Asked, Outcome
from tests.soak.sample import ProcessSample, Sample, sample_of
from tests.soak.slope import slope
from tests.soak.traffic import SHARES, Tally, path_of
from tests.soak.verdict import judge
from tests.support.runs import RunsRecord

FORKED = """
import os, sys
data = bytearray(b"x") * (MIB << 20)
if os.fork():
    os.wait()
else:
    print(os.getpid(), flush=True)
    sys.stdin.readline()
    data[::4096] = b"y" * len(data[::4096])
    print("written", flush=True)
    sys.stdin.readline()
    more = bytearray(b"x") * (MIB << 20)
    print("more", flush=True)
    sys.stdin.readline()
"""
FORKED_MIB = 16
ASKED = Asked(1000, 480.0, 120.0, 2.0, 1, 1, 1, 16, 20_000)


def samples(
    own_mib: Callable[[float], float],
    *,
    noise_kib: float = 40,
    descriptors: int = 0,
    keys: int = 0,
    mapped_kib: int = 0,
    gone_after: float = 1e9,
) -> list[Sample]:
    """480 seconds of a process with so much memory at a time, and so many more descriptors, keys and mapped KiB a
    second."""
    noise, found = np.random.default_rng(20), []
    for at in map(float, range(0, 480, 2)):
        own = round(1024 * own_mib(at) + noise.normal(0, noise_kib))
        there = {"API": ProcessSample(own, own + 9000 + round(mapped_kib * at), 20 + round(descriptors * at))}
        jobs, present = round(2000 * at), there if at < gone_after else {}
        found.append(Sample(at, jobs, present, 9000, 4000 + round(keys * at), 70, 1800))
    return found


def test_noise_and_an_early_jump_are_no_growth() -> None:
    verdict = judge(samples(lambda at: 90 + min(at, 100) / 4 + (0.5 if at > 140 else 0)), 120.0)
    assert verdict.growing == verdict.undecided == verdict.ended == []


def test_too_much_noise_shows_nothing() -> None:
    verdict = judge(samples(lambda _: 90, noise_kib=2000), 120.0)
    assert verdict.growing == [] and verdict.undecided == ["API"]


def test_growth_is_found_beneath_the_noise() -> None:
    verdict = judge(samples(lambda at: 90 + 12 * at / 3600), 120.0)
    assert verdict.growing == ["the memory of API"]
    assert verdict.memory["API"].low < 12 < verdict.memory["API"].high


@pytest.mark.parametrize("more", [{"descriptors": 1}, {"keys": 100}, {"mapped_kib": 200}])
def test_what_is_not_flat_is_found(more: dict[str, int]) -> None:
    assert judge(samples(lambda _: 90, **more), 120.0).growing


def test_a_replaced_process_is_reported() -> None:
    assert judge(samples(lambda _: 90, gone_after=400.0), 120.0).ended == ["API"]


def test_the_slope_is_a_median_with_an_interval() -> None:
    times = list(range(0, 3600, 10))
    found = slope(times, [t / 1800 + (50 if t in (100, 2000) else 0) for t in times])
    assert found.per_h == pytest.approx(2.0) and found.low <= found.per_h <= found.high
    with pytest.raises(ValueError, match="too few"):
        slope([1, 2, 3], [1, 2, 3])


def test_a_lost_job_or_a_wrong_product_fails_the_run() -> None:
    calm = samples(lambda _: 90)
    verdict = judge(calm, 120.0)
    assert Outcome(ASKED, Tally(jobs=5), calm, verdict, 5, 480.0).passed
    assert not Outcome(ASKED, Tally(jobs=5), calm, verdict, 4, 480.0).passed
    assert not Outcome(ASKED, Tally(jobs=5, wrong=["1: not its own"]), calm, verdict, 5, 480.0).passed


def test_a_record_has_rows_of_samples() -> None:
    calm = samples(lambda _: 90)
    record = document(Outcome(ASKED, Tally(jobs=5), calm, judge(calm, 120.0), 5, 480.0))
    assert 24 <= len(record["samples"]) <= 48 < len(calm)
    assert all(len(row) == len(record["columns"]) + len(record["processes"]) for row in record["samples"])


def test_the_docs_tell_of_all_runs(tmp_path: Path) -> None:
    record = RunsRecord(tmp_path / "soak.json")
    flat, growing = samples(lambda _: 90), samples(lambda at: 90 + 12 * at / 3600)
    for some, ended, seconds in ((flat, 5000, 240.0), (growing, 4999, 480.0)):
        record.add(document(Outcome(ASKED, Tally(jobs=5000), some, judge(some, 120.0), ended, seconds)))
    text = "\n".join(soak(tmp_path))
    assert re.search(r"\| 1 \| .* \| 5,000 \| 240 \| 0 \| 0 \| none \|", text)
    assert re.search(r"\| 2 \| .* \| 5,000 \| 480 \| 1 \| 0 \| the memory of API \|", text)
    assert "| all |  |  | 10,000 |  | 1 | 0 |  |" in text
    assert re.search(r"\| API \| 1[12]\.\d\d \|", text)
    assert not [*soak(tmp_path / "elsewhere")]


def test_what_is_checked_out_is_judged_and_earlier_runs_stay_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that found growth stays, also for who mended it; it says nothing of what came after, nor does it count."""
    out, growth_mib_h = tmp_path / "soak.json", 12.0

    def played(asked: Asked, directory: Path) -> Outcome:
        some = samples(lambda at: 90 + growth_mib_h * at / 3600)
        return Outcome(asked, Tally(jobs=5, conversations=Counter({"inline": 500})), some, judge(some, 120.0), 5, 480.0)

    monkeypatch.setattr("tests.soak.__main__.run", played)
    soak_of = ["--jobs", "1000", "--out", str(out), "--commit"]
    assert main([*soak_of, "before"]) == 1
    growth_mib_h = 0.0
    assert main([*soak_of, "before"]) == 1, "one of its two runs grew"
    assert main([*soak_of, "after"]) == 0
    assert [run["passed"] for run in RunsRecord(out).runs] == [False, True, True]
    assert main([*soak_of, "after"]) == 0 and main([*soak_of, "after"]) == 0
    assert len(RunsRecord(out).runs) == 4, "it has its thousand"


def test_paths_have_their_shares() -> None:
    assert Counter(path_of(number) for number in range(100)) == SHARES


def test_what_is_copied_since_a_fork_is_no_growth_but_new_memory_is() -> None:
    script = FORKED.replace("MIB", str(FORKED_MIB))
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin and parent.stdout
        child = psutil.Process(int(parent.stdout.readline()))
        own_kib = [sample_of(child).own_kib]
        for _ in range(2):
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            parent.stdout.readline()
            own_kib.append(sample_of(child).own_kib)
    written, more = (after - before for before, after in pairwise(own_kib))
    assert abs(written) < 1024
    assert more >= FORKED_MIB * 1024
