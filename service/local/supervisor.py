"""Supervises the parts of a local service: starts them, restarts those that die, and stops them in order."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Thread
from types import FrameType
from typing import IO, Protocol

from service.local.guard import Guard, kill_groups

FIRST_DELAY_S, MAX_DELAY_S = 0.5, 15.0  # before a dead part is restarted; doubles with each successive death
STEADY_S = 30.0  # a part that ran this long counts as healthy again
TICK_S = 0.1
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Say = Callable[[str, str], None]  # takes the name of a part, and a line about it


class ServicePart(Protocol):
    """A part that can be supervised. Its process leads a process group of its own."""

    @property
    def pid(self) -> int: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> None: ...
    def stop(self, timeout_s: float) -> None: ...


def say(name: str, line: str) -> None:
    """Prints one log line with the part's name, in a single write, because several threads print."""
    with suppress(OSError):  # as in `tell`
        sys.stderr.write(f"{name:<8} | {line}\n")
        sys.stderr.flush()


def tell(text: str) -> None:
    """Prints what the user is to know. If the reader of our output is gone, such as a terminal that was closed, the
    service continues, and stops in order."""
    with suppress(OSError):
        print(text, flush=True)


class ChildProcess:
    """A process in a session of its own, so that the terminal's Ctrl-C reaches only the launcher.

    `inherited` are descriptors that stay open in it. With `names_lines` its output is prefixed with its name.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        inherited: Sequence[int] = (),
        names_lines: bool = True,
    ) -> None:
        self._name, self._command, self._environment = name, command, environment
        self._inherited, self._names_lines = inherited, names_lines
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self._name} was not started"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if self._names_lines else None,
            stderr=subprocess.STDOUT if self._names_lines else None,
            pass_fds=self._inherited,
            start_new_session=True,
        )
        if self._process.stdout is not None:
            Thread(target=self._relay, args=(self._process.stdout,), daemon=True).start()

    def _relay(self, lines: IO[bytes]) -> None:
        with lines:
            for line in lines:
                if text := line.decode(errors="replace").rstrip():
                    say(self._name, text)

    def stop(self, timeout_s: float) -> None:
        """Sends SIGTERM, and SIGKILL to the rest of its group once it has exited or `timeout_s` have passed."""
        if self._process is None:
            return
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        kill_groups([self._process.pid])
        self._process.wait()


@dataclass(slots=True)
class _Kept:
    """A part, and when it last started or is to start again."""

    name: str
    part: ServicePart
    say: Say
    started_at: float = 0.0
    delay_s: float = FIRST_DELAY_S
    due_at: float | None = None

    def start(self) -> None:
        self.part.start()
        self.started_at, self.due_at = time.monotonic(), None

    def look_after(self, now: float) -> None:
        """Restarts the part if it died and its delay has passed."""
        if self.part.running:
            if now - self.started_at > STEADY_S:
                self.delay_s = FIRST_DELAY_S
        elif self.due_at is None:
            self.part.stop(0)  # its own children would otherwise continue
            self.say(self.name, f"ended unexpectedly; starting again in {self.delay_s:g} s")
            self.due_at, self.delay_s = now + self.delay_s, min(2 * self.delay_s, MAX_DELAY_S)
        elif now >= self.due_at:
            self._restart()

    def _restart(self) -> None:
        try:
            self.start()
        except (OSError, RuntimeError) as error:
            self.say(self.name, str(error))
            self.due_at = None


class Supervisor:
    """Stages start in order and stop in reverse; the parts of a stage, by name, stop at the same time. `once` starts
    after all stages and may exit by itself; it is stopped first, without waiting for it.
    """

    def __init__(
        self,
        stages: Sequence[Mapping[str, ServicePart]],
        *,
        stop_timeout_s: float,
        once: ServicePart | None = None,
        say: Say = say,
    ) -> None:
        self._stages = [[_Kept(name, part, say) for name, part in stage.items()] for stage in stages]
        self._once = once
        self._stop_timeout_s = stop_timeout_s
        self._guard = Guard()
        self._watched: list[int] = []

    def _all(self) -> Iterator[_Kept]:
        return (kept for stage in self._stages for kept in stage)

    def _groups(self) -> list[int]:
        parts = [*(kept.part for kept in self._all()), *([self._once] if self._once else ())]
        return [part.pid for part in parts if part.running]

    def _watch(self) -> None:
        groups = self._groups()
        if groups != self._watched or not self._guard.running:
            self._guard.watch(groups)
            self._watched = groups

    def start(self) -> None:
        """Raises what a part's start raises."""
        for kept in self._all():
            kept.start()
            self._watch()
        if self._once is not None:
            self._once.start()
            self._watch()

    def tick(self) -> None:
        """Restarts dead parts; call it often."""
        now = time.monotonic()
        for kept in self._all():
            kept.look_after(now)
        self._watch()

    def stop(self) -> None:
        """Stops the stages, the last one first. Processes that do not exit within the timeout are killed; none is
        left.
        """
        if self._once is not None:
            self._once.stop(0)
        for stage in reversed(self._stages):
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda kept: kept.part.stop(self._stop_timeout_s), stage))
        self._guard.dismiss()

    def kill(self) -> None:
        """Sends SIGKILL to everything at once; a `stop` in progress then returns."""
        kill_groups(self._groups())

    def run(self, stop: Event) -> None:
        """Starts everything and keeps it running until `stop` is set or one of SIGNALS arrives. A second signal kills
        what a `stop` in progress waits for. For the main thread.
        """

        def on_signal(_number: int, _frame: FrameType | None) -> None:
            if stop.is_set():
                self.kill()
            stop.set()

        for number in SIGNALS:
            signal.signal(number, on_signal)
        self.start()
        while not stop.wait(TICK_S):
            self.tick()
