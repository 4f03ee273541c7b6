"""Instructions and commands of Valkey for the ledger's functions of one product, as `benchmarks.measure.peers.scripts`
has it. Other load on the machine changes neither. Needs valgrind.

    python -m benchmarks.measure.peers.instructions --jobs 320
    python -m benchmarks.measure.peers.instructions --jobs 32 --each    # by function, which takes longer
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure.peers.scripts import Scripts, arguments_of_scripts, started
from jobs.redis.embedded import find_server

COUNTED = "fcallCommand"  # the function of Valkey in which instructions are counted
FUNCTIONS = ("submit", "claim", "succeed")
OUTSIDE = ("cmdstat_config", "cmdstat_info", "cmdstat_fcall", "cmdstat_brpop", "cmdstat_blmove")
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def counting_server(directory: Path) -> None:
    """Puts a server on PATH that runs under callgrind, which writes its counts there."""
    server = directory / "valkey-server"
    options = ("--tool=callgrind", f"--callgrind-out-file={directory}/counts", f"--toggle-collect={COUNTED}", "-q")
    server.write_text(f'#!/bin/sh\nexec {shlex.join(["valgrind", *options, find_server()])} "$@"\n')
    server.chmod(0o755)
    os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"


class Counts:
    """Since the last look: instructions and commands."""

    def __init__(self, scripts: Scripts, directory: Path) -> None:
        self._scripts, self._directory, self._pid = scripts, directory, scripts.server_pid

    def reset(self) -> None:
        _control("--zero", self._pid)
        self._scripts.reset_counts()

    def read(self) -> tuple[int, int]:
        counts = self._scripts.counts().items()
        commands = sum(stats["calls"] for name, stats in counts if not name.startswith(OUTSIDE))
        _control("--dump", self._pid)
        latest = max(self._directory.glob("counts.*"), key=lambda path: path.stat().st_mtime_ns)
        found: Any = TOTAL.search(latest.read_text())
        return int(found[1]), commands


def cost(scripts: Scripts, counts: Counts, launches: int, batch: int) -> None:
    """Prints those of each job."""
    counts.reset()
    scripts.in_a_row(launches, batch)
    _tell(f"batches of {batch}", counts.read(), launches * batch)


def cost_of_each(scripts: Scripts, counts: Counts, launches: int, batch: int) -> None:
    """Prints those of each job by function."""
    instructions, commands = Counter[str](), Counter[str]()
    for _ in range(launches):
        for name, step in scripts.run(batch):
            counts.reset()
            step()
            of_step = counts.read()
            instructions[name] += of_step[0]
            commands[name] += of_step[1]
    for name in FUNCTIONS:
        _tell(f"batches of {batch}, {name}", (instructions[name], commands[name]), launches * batch)


def _tell(what: str, counted: tuple[int, int], jobs: int) -> None:
    instructions, commands = (each / jobs for each in counted)
    print(f"{what}: {instructions:,.0f} instructions and {commands:.1f} commands a job")


def _control(option: str, pid: int) -> None:
    subprocess.run(["callgrind_control", option, str(pid)], check=True, capture_output=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = arguments_of_scripts()
    parser.add_argument("--each", action="store_true", help="by function")
    asked = parser.parse_args(arguments)
    if shutil.which("callgrind_control") is None:
        sys.exit("valgrind is not installed; it counts the instructions")
    with TemporaryDirectory() as name:
        directory = Path(name)
        counting_server(directory)
        with started(asked) as scripts:
            counts = Counts(scripts, directory)
            for batch in (1, asked.batch):
                launches = max(1, asked.jobs // batch)
                scripts.in_a_row(max(1, launches // 2), batch)  # warm-up
                (cost_of_each if asked.each else cost)(scripts, counts, launches, batch)


if __name__ == "__main__":
    main()
