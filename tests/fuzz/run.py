"""A share of the fuzzing: one target in a process of its own, for a time."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.corpus import dictionary, unpack
from tests.fuzz.table import TARGETS

INPUT_TIMEOUT_S = 10  # for one input: far more than any takes
MAX_RSS_MIB = 1024
_COVERED = re.compile(r"cov: (\d+) ft: (\d+)")
_DONE = re.compile(r"stat::number_of_executed_units: (\d+)")
_LAST = re.compile(r"^#(\d+)\s", re.MULTILINE)
_ERROR = re.compile(r"^ ?(?:=== Uncaught Python exception: ===\n(.*)|==\d+== ?ERROR: (.*))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Share:
    """`runs`: at most so many; 0 for as many as there is time for."""

    target: str
    seed: int
    runs: int
    seconds: float


@dataclass(slots=True)
class Found:
    """What came of the fuzzing of one target. `edges` and `features` are libFuzzer's: branches, and how often each was
    taken. `inputs`: those that led somewhere."""

    runs: int = 0
    edges: int = 0
    features: int = 0
    findings: list[str] = field(default_factory=list)
    inputs: set[bytes] = field(default_factory=set)

    def add(self, other: Found) -> None:
        self.runs += other.runs
        self.edges = max(self.edges, other.edges)
        self.features = max(self.features, other.features)
        self.findings += other.findings
        self.inputs |= other.inputs


def run(share: Share, folder: Path, found_folder: Path) -> Found:
    """In a folder of its own. Inputs that broke something are put into `found_folder`."""
    target = TARGETS[share.target]
    unpack(target, folder / "corpus")
    found_folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz.child", target.name, str(folder / "corpus")]
    command += [f"-seed={share.seed}", f"-max_total_time={share.seconds:.0f}", f"-max_len={target.max_bytes}"]
    command += [f"-timeout={INPUT_TIMEOUT_S}", f"-rss_limit_mb={MAX_RSS_MIB}", "-print_final_stats=1"]
    command += [f"-artifact_prefix={found_folder}/{target.name}-"]
    command += [f"-runs={share.runs}"] if share.runs else []
    if target.words:
        (folder / "words").write_text(dictionary(target.words))
        command.append(f"-dict={folder / 'words'}")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    log = done.stdout.decode("utf-8", "replace")
    inputs = {path.read_bytes() for path in (folder / "corpus").iterdir()}
    return _found(target.name, log, done.returncode, inputs)


def _found(name: str, log: str, status: int, inputs: set[bytes]) -> Found:
    covered = _COVERED.findall(log)
    counted = _DONE.findall(log) or _LAST.findall(log)
    edges, features = map(int, covered[-1]) if covered else (0, 0)
    found = Found(int(counted[-1]) if counted else 0, edges, features, inputs=inputs)
    if status:
        error = _ERROR.search(log)
        found.findings.append(f"{name}: {(error[1] or error[2]) if error else log[-200:]}"[:300])
        print(log[-4000:], flush=True)
    return found
