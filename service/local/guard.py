"""A guard process that kills the launcher's leftovers, so that no process remains even after a SIGKILL of the launcher.
It reads lines of process group ids from standard input; each line replaces the previous one. At end of input the
launcher is gone, and the groups of the last line are killed. A launcher that stops in order sends an empty line first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable


class Guard:
    """The launcher's end of the pipe."""

    def __init__(self) -> None:
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],  # no site packages: it starts in some 10 ms
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def watch(self, groups: Iterable[int]) -> None:
        """The groups that must not outlive this process."""
        if not self.running:
            self._process.communicate()
            self._process = self._start()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{' '.join(map(str, groups))}\n".encode())
        self._process.stdin.flush()

    def dismiss(self) -> None:
        """Tells the guard that nothing is left to watch."""
        self.watch(())
        self._process.communicate()


def kill_groups(groups: Iterable[int]) -> None:
    """SIGKILL to every process of these groups that are still there."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: list[int] = []
    for line in sys.stdin:
        groups = [int(word) for word in line.split()]
    kill_groups(groups)


if __name__ == "__main__":
    main()
