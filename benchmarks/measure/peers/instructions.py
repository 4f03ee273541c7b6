"""Instructions and commands of Valkey for the ledger's functions of one product, as `benchmarks.measure.peers.scripts`
has it. Other load on the machine changes neither. Needs valgrind.

    python -m benchmarks.measure.peers.instructions --jobs 320
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure.peers.scripts import Scripts, parsed, started
from jobs.redis.embedded import find_server

COUNTED = "fcallCommand"  # the function of Valkey in which instructions are counted
OUTSIDE = ("cmdstat_config", "cmdstat_info", "cmdstat_fcall", "cmdstat_brpop", "cmdstat_blmove")
TOTAL = re.compile(r"^(?:summary|totals): (\d+)", re.MULTILINE)


def counting_server(directory: Path) -> None:
    """Puts a server on PATH that runs under callgrind, which writes its counts there."""
    server = directory / "valkey-server"
    options = ("--tool=callgrind", f"--callgrind-out-file={directory}/counts", f"--toggle-collect={COUNTED}", "-q")
    server.write_text(f'#!/bin/sh\nexec {shlex.join(["valgrind", *options, find_server()])} "$@"\n')
    server.chmod(0o755)
    os.environ["PATH"] = f"{directory}{os.pathsep}{os.environ['PATH']}"


def cost(scripts: Scripts, directory: Path, pid: int, launches: int, batch: int) -> tuple[float, float]:
    """Instructions and commands of each job."""
    _control("--zero", pid)
    scripts.reset_counts()
    for _ in range(launches):
        for _, step in scripts.run(batch):
            step()
    commands = sum(stats["calls"] for name, stats in scripts.counts().items() if not name.startswith(OUTSIDE))
    _control("--dump", pid)
    latest = max(directory.glob("counts.*"), key=lambda path: path.stat().st_mtime_ns)
    found: Any = TOTAL.search(latest.read_text())
    return int(found[1]) / launches / batch, commands / launches / batch


def _control(option: str, pid: int) -> None:
    subprocess.run(["callgrind_control", option, str(pid)], check=True, capture_output=True)


def main(arguments: Sequence[str] | None = None) -> None:
    asked = parsed(arguments)
    if shutil.which("callgrind_control") is None:
        sys.exit("valgrind is not installed; it counts the instructions")
    with TemporaryDirectory() as name:
        directory = Path(name)
        counting_server(directory)
        with started(stored=asked.stored) as scripts:
            for batch in (1, asked.batch):
                launches = max(1, asked.jobs // batch)
                scripts.in_a_row(max(1, launches // 2), batch)  # warm-up
                instructions, commands = cost(scripts, directory, scripts.server_pid, launches, batch)
                print(f"batches of {batch}: {instructions:,.0f} instructions and {commands:.1f} commands a job")


if __name__ == "__main__":
    main()
