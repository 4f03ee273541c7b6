"""The command `matmul` in a pseudo-terminal, with somebody at it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from types import TracebackType
from typing import Self

PROGRAM = "from matmul_client.cli.main import main; main()"
TIMEOUT_S = 180.0
ROWS, COLUMNS = 50, 140
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


class Terminal:
    """Runs `matmul` with the arguments. What is printed gathers in `screen`, without colours and cursor movements."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        self._own, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm-256color"} | environment,
            start_new_session=True,
            preexec_fn=_take_terminal,  # so that Ctrl-C reaches it, as from a keyboard
        )
        os.close(theirs)
        self.screen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._own)

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())

    def ctrl_c(self) -> None:
        self.type("\x03")

    def until(self, text: str) -> None:
        """Returns once it was printed. Fails where the command ends, or the time passes, before."""
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.screen:
            assert time.monotonic() < deadline, self.screen
            assert self._read(), self.screen

    def end(self) -> int:
        """The exit status."""
        while self._read():
            pass
        return self._process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        """False at the end."""
        ready, _, _ = select.select([self._own], [], [], TIMEOUT_S)
        try:
            data = os.read(self._own, 1 << 16) if ready else b""
        except OSError:  # Linux says so when the last one has closed the other end
            return False
        self.screen += _CONTROL.sub("", data.decode(errors="replace"))
        return bool(data)


def _take_terminal() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs in the background hands on that it is ignored
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
