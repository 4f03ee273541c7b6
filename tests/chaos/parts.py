"""One process of the service, as the harness starts, stops and ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.support.other_version import python_path
from tools.stack import kill_group

TERM_TIMEOUT_S = 60.0


class Part:
    """`mark` is in the environment of all that descends from it. `other`: a checkout of another version of the service,
    which `start` may take."""

    def __init__(self, name: str, command: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
        self.name = name
        self._command, self._environment, self._log = command, dict(environment), log
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self, extra: Mapping[str, str] | None = None, checkout: Path | None = None) -> None:
        """`extra` environment; `checkout`: where the code comes from, in place of this one."""
        environment = {**os.environ, **self._environment, **(extra or {})}
        if checkout is not None:
            environment["PYTHONPATH"] = python_path(checkout)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._command],
                env=environment,
                cwd=checkout,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.starts += 1

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL to it and its children, as the loss of its host."""
        if self._process is not None:
            kill_group(self._process)

    def terminate(self) -> bool:
        """SIGTERM, and whether it ended by itself; it is killed where it did not."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(TERM_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        self.kill()  # what it may have left of its group
        return True

    def signal_group(self, which: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, which)

    def child(self) -> int | None:
        """The process that computes, of a worker; none while it is being replaced."""
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self.pid).children():
                if "tracker" not in " ".join(child.cmdline()):  # not the keeper of its semaphores
                    return int(child.pid)
        return None

    def stop_child(self, seconds: float) -> bool:
        """SIGSTOP to it for that long. False where there was none."""
        if (child := self.child()) is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(child, signal.SIGCONT)
        return True

    def kill_child(self) -> bool:
        """SIGKILL to it, as the kernel's out-of-memory killer would. False where there was none."""
        if (child := self.child()) is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        return True
