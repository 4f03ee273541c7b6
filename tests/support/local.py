"""`python -m service.local` (what `make run` runs) as a real process, in a state directory of a test's own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import Any, Self

import psutil

from jobs.redis.embedded import free_port
from tests.support.workers.workers import is_dead

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 90.0
COMMAND = (sys.executable, "-m", "service.local")


class Local:
    """Starts on entry and returns when the first product was printed; what is left at the exit is killed."""

    def __init__(
        self, state: Path, *, command: Sequence[str] = COMMAND, directory: Path | None = None, **settings: str
    ) -> None:
        self._state = state / "state"
        self._directory = directory
        self.port = free_port()
        own = {"state_dir": str(self._state), "port": str(self.port), "cpu_threads": "1", **settings}
        self.environment = os.environ | {f"MATMUL_{name.upper()}": value for name, value in own.items()}
        self._command = command
        self.output = ""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            self._command,
            env=self.environment,
            cwd=self._directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            eventually(lambda: "Stop: " in self.output or self.process.poll() is not None, START_TIMEOUT_S)
            assert self.process.poll() is None, self.output
        except BaseException:
            self._clean_up()
            raise
        return self

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.output += line

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_key(self) -> str:
        found = re.search(r"^API key: +(\S+)$", self.output, re.MULTILINE)
        assert found is not None, self.output
        return found[1]

    def get(self, path: str, **headers: str) -> Any:
        """A JSON answer. Raises HTTPError."""
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers), timeout=60) as reply:
            return json.loads(reply.read())

    def redis_url(self) -> str:
        """Of the embedded server, by the password for all of it."""
        kept = self._state / "valkey"
        settings = dict(line.split(" ", 1) for line in (kept / "valkey.conf").read_text().splitlines())
        return f"redis://:{(kept / 'password').read_text()}@127.0.0.1:{settings['port']}/0"

    def family(self) -> list[psutil.Process]:
        """Every process below the launcher."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it: to the launcher's whole process group. Its exit status."""
        return end_group(self.process)

    def _clean_up(self) -> None:
        """The launcher's guard ends the rest."""
        self.process.kill()
        self.process.wait()
        self._reader.join(STOP_TIMEOUT_S)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._clean_up()


def end_group(process: subprocess.Popen[str]) -> int:
    """SIGINT to a process group, as Ctrl-C in a terminal; the leader's exit status."""
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(STOP_TIMEOUT_S)


def eventually(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    """Returns once the condition holds. Fails after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.05)


def alive(processes: Sequence[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; a zombie does not."""
    return [each for each in processes if not is_dead(each)]


def children_of(pid: int, word: str) -> list[psutil.Process]:
    """Those of its children that run and have the word among their arguments, oldest first."""
    found = []
    for each in alive(psutil.Process(pid).children()):
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if word in each.cmdline():
                found.append(each)
    return found
