"""The API processes of one machine, as parts for a supervisor: they answer on the same addresses, and one that dies is
restarted (docs/decisions/0023-api-processes.md).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from jobs.settings import Settings
from service.api_process.share import Share
from service.local.supervisor import ChildProcess
from service.server.accepting import make_counts_file
from service.server.addresses import Addresses, bind

ONE_UP_TO_CORES, CORES_EACH, MAX_PROCESSES = 4, 2, 8
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1"}  # an API process does not multiply; BLAS threads would only take memory


def process_count(settings: Settings) -> int:
    """The number of API processes: the setting, or a default by the number of usable cores."""
    cores = len(os.sched_getaffinity(0))
    return settings.api_processes or (1 if cores <= ONE_UP_TO_CORES else min(cores // CORES_EACH, MAX_PROCESSES))


class ApiProcesses:
    """The API processes and the resources that they share. Raises InvalidSettings if an address cannot be used."""

    def __init__(self, settings: Settings, metrics: Path) -> None:
        self.count = process_count(settings)
        self._addresses: Addresses = bind(settings)
        self._counts = make_counts_file(self.count)
        self._metrics = metrics

    @property
    def port(self) -> int:
        return self._addresses.port

    def parts(self, environment: Mapping[str, str], *, names_lines: bool) -> dict[str, ChildProcess]:
        """The processes by name. `names_lines`: prefix their output with their names."""
        names = [f"api-{index + 1}" for index in range(self.count)] if self.count > 1 else ["api"]
        return {name: self._part(name, index, environment, names_lines) for index, name in enumerate(names)}

    def _part(self, name: str, index: int, environment: Mapping[str, str], names_lines: bool) -> ChildProcess:
        share = Share(index, self.count, self._metrics)
        return ChildProcess(
            name,
            self._command(share),
            ONE_THREAD | dict(environment),
            inherited=[*(each.fileno() for each in self._addresses.sockets), self._counts],
            names_lines=names_lines,
        )

    def _command(self, share: Share) -> list[str]:
        """The command line of one that inherits these descriptors. It stands here because its module imports the whole
        API, which is not needed where processes are only supervised.
        """
        options = {
            "listen": ",".join(str(each.fileno()) for each in self._addresses.sockets),
            "counts": self._counts,
            "index": share.index,
            "processes": share.processes,
            "metrics": share.metrics,
        }
        given = (f"--{name}={value}" for name, value in options.items())
        return [sys.executable, "-m", "service.server.member", *given]

    def close(self) -> None:
        """Closes the shared sockets, once the processes have stopped or are about to. When none of them listens,
        connections are refused.
        """
        self._addresses.close()
