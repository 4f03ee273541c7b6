"""The supervisor of `make run`, on real processes of a few lines."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from service.local.run import supervise
from service.local.supervisor import ChildProcess, Supervisor

STOP_TIMEOUT_S = 5.0
DEADLINE_S = 60.0
# Writes its name to a file when it is asked to stop.
POLITE = "import signal, sys, time\n" + (
    "def end(*_):\n    open(sys.argv[1], 'a').write(sys.argv[2] + '\\n'); sys.exit()\n"
    "signal.signal(signal.SIGTERM, end)\nprint('up', flush=True)\ntime.sleep(60)\n"
)
STUBBORN = (
    "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(60)\n"
)
PARENT = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(child.pid, flush=True)\ntime.sleep(60)\n"
)
LAUNCHER = (
    "import sys, time\nfrom service.local.supervisor import ChildProcess, Supervisor\n"
    f"parent = ChildProcess('parent', [sys.executable, '-c', {PARENT!r}], {{}})\n"
    "Supervisor([{'parent': parent}], stop_timeout_s=5).start()\ntime.sleep(60)\n"
)


def eventually(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come about in time"
        time.sleep(0.02)


def python(name: str, code: str, *arguments: str) -> ChildProcess:
    return ChildProcess(name, [sys.executable, "-c", code, *arguments], os.environ)


@pytest.fixture
def supervised() -> Iterator[Callable[[list[dict[str, ChildProcess]]], Supervisor]]:
    started: list[Supervisor] = []

    def start(stages: list[dict[str, ChildProcess]]) -> Supervisor:
        started.append(Supervisor(stages, stop_timeout_s=STOP_TIMEOUT_S))
        started[-1].start()
        return started[-1]

    yield start
    for supervisor in started:
        supervisor.kill()
        with contextlib.suppress(BrokenPipeError):
            supervisor.stop()


Supervised = Callable[[list[dict[str, ChildProcess]]], Supervisor]


def wait_for_lines(capfd: pytest.CaptureFixture[str], wanted: int) -> list[str]:
    lines: list[str] = []

    def enough() -> bool:
        lines.extend(capfd.readouterr().err.splitlines())
        return len(lines) >= wanted

    eventually(enough)
    return lines


def test_lines_carry_the_name_of_who_says_them(supervised: Supervised, capfd: pytest.CaptureFixture[str]) -> None:
    supervised([{"one": python("one", "import time; print('hello', flush=True); time.sleep(60)")}])
    assert wait_for_lines(capfd, 1) == ["one      | hello"]


def test_a_part_that_died_is_started_again(supervised: Supervised) -> None:
    child = python("one", "import time; time.sleep(60)")
    supervisor = supervised([{"one": child}])
    first = child.pid
    os.kill(first, signal.SIGKILL)

    def restarted() -> bool:
        supervisor.tick()
        return child.running and child.pid != first

    eventually(restarted)


def test_restarts_slow_down(supervised: Supervised, capfd: pytest.CaptureFixture[str]) -> None:
    supervisor = supervised([{"one": python("one", "raise SystemExit(3)")}])
    said: list[str] = []

    def twice() -> bool:
        supervisor.tick()
        said.extend(line for line in capfd.readouterr().err.splitlines() if "starting again" in line)
        return len(said) == 2

    eventually(twice)
    assert said == [f"one      | ended unexpectedly; starting again in {delay} s" for delay in ("0.5", "1")]


@pytest.mark.parametrize(
    ("code", "ends"),
    [("import sys; open(sys.argv[1], 'a').write('x'); print('up', flush=True)", True), (STUBBORN, False)],
)
def test_what_runs_once_is_not_started_again_and_ends_with_the_rest(
    code: str, ends: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "runs"
    once, lasting = python("once", code, str(runs)), python("one", "import time; time.sleep(60)")
    supervisor = Supervisor([{"one": lasting}], stop_timeout_s=STOP_TIMEOUT_S, once=once)
    supervisor.start()
    assert wait_for_lines(capfd, 1) == ["once     | up"]
    if ends:
        eventually(lambda: not once.running)
    for _ in range(3):
        supervisor.tick()
    assert [lasting.running, once.running] == [True, not ends]
    supervisor.stop()
    assert [lasting.running, once.running] == [False, False]
    assert runs.exists() == ends and (not ends or runs.read_text() == "x")


def test_stages_stop_in_reverse_order(
    supervised: Supervised, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    order = tmp_path / "order"
    stages = [{name: python(name, POLITE, str(order), name)} for name in ("valkey", "worker", "api")]
    supervisor = supervised(stages)
    wait_for_lines(capfd, 3)
    supervisor.stop()
    assert order.read_text().split() == ["api", "worker", "valkey"]


def test_what_does_not_stop_is_killed(capfd: pytest.CaptureFixture[str]) -> None:
    child = python("one", STUBBORN)
    supervisor = Supervisor([{"one": child}], stop_timeout_s=0.2)
    supervisor.start()
    wait_for_lines(capfd, 1)
    supervisor.stop()
    assert not child.running


def test_a_dead_part_leaves_no_children(supervised: Supervised, capfd: pytest.CaptureFixture[str]) -> None:
    child = python("one", PARENT)
    supervisor = supervised([{"one": child}])
    grandchild = int(wait_for_lines(capfd, 1)[0].split()[-1])
    os.kill(child.pid, signal.SIGKILL)

    def gone() -> bool:
        supervisor.tick()
        return not is_alive(grandchild)

    eventually(gone)


def test_sigkill_of_the_launcher_leaves_nothing() -> None:
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stderr=subprocess.PIPE, text=True) as launcher:
        assert launcher.stderr is not None
        grandchild = int(launcher.stderr.readline().split()[-1])
        family = [child.pid for child in psutil.Process(launcher.pid).children(recursive=True)]
        assert grandchild in family
        assert len(family) == 3  # the part, its child, the guard
        launcher.kill()
    eventually(lambda: not [pid for pid in family if is_alive(pid)])


def test_a_dead_guard_is_replaced(supervised: Supervised) -> None:
    child = python("one", "import time; time.sleep(60)")
    supervisor = supervised([{"one": child}])
    (guard,) = guards()
    guard.kill()
    guard.wait()

    def replaced() -> bool:
        supervisor.tick()
        return [each.pid for each in guards()] not in ([], [guard.pid])

    eventually(replaced)
    assert child.running


def guards() -> list[psutil.Process]:
    children = psutil.Process().children()
    return [each for each in children if is_alive(each.pid) and any("guard.py" in word for word in each.cmdline())]


def is_alive(pid: int) -> bool:
    """Whether it runs; a zombie, which waits for a parent that may not ask, does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class ClosedTerminal(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class Told:
    """In place of the service: stops at once, and says what it was asked."""

    failed = False

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.asked.append(name)


def test_everything_stops_in_order_though_the_terminal_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, ClosedTerminal())
    told: Any = Told()
    assert supervise(told, told, told) == 0
    assert told.asked[-2:] == ["close", "stop"]


def test_parts_are_heard_though_the_terminal_is_closed(
    supervised: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they could write no more."""
    monkeypatch.setattr(sys, "stderr", ClosedTerminal())
    many = (
        "import pathlib, sys\nfor _ in range(9_999): print('line' * 20, flush=True)\npathlib.Path(sys.argv[1]).touch()"
    )
    supervised([{"one": python("one", many, str(tmp_path / "wrote"))}])
    eventually((tmp_path / "wrote").exists)
