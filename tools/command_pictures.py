"""Takes the pictures of the command `matmul` in README.md: `python -m tools.command_pictures`.

Runs it on the service with a CPU worker, in a pseudo-terminal, and has rich draw what is on the screen as SVG.
"""

from __future__ import annotations

import io
import os
import pty
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.text import Text

from tools.stack import Stack

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
COLUMNS = 100
MAX_BYTES = 60_000
SESSIONS = {
    "command_multiply": ("matmul multiply a.npy b.npy -o c.npy", "matmul devices"),
    "command_bench": ("matmul bench run quick",),
}
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # fetched from elsewhere; any monospaced font will do
_MOVES = re.compile(r"\x1b\[[0-9;?]*[A-HJ-LN-Zf-hln]|\r")


def output(command: str, folder: Path, url: str) -> str:
    """What the command prints in a terminal at its end."""
    own, theirs = pty.openpty()
    program = [sys.executable, "-c", "from matmul_client.cli.main import main; main()"]
    environment = os.environ | {"MATMUL_URL": url, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        [*program, *shlex.split(command)[1:]],
        cwd=folder,
        env=environment,
        stdout=theirs,
        stderr=subprocess.DEVNULL,  # progress, which is gone at the end
    )
    os.close(theirs)
    printed = b""
    try:
        while data := os.read(own, 1 << 16):
            printed += data
    except OSError:
        pass  # Linux says so when the last one has closed the other end
    os.close(own)
    if process.wait():
        raise RuntimeError(f"{command} ended with {process.returncode}")
    return _MOVES.sub("", printed.decode())


def picture(session: tuple[str, ...], folder: Path, url: str) -> str:
    """The screen after these commands, as SVG."""
    screen = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for command in session:
        screen.print(Text(f"$ {command}", style="bold"))
        screen.print(Text.from_ansi(output(command, folder, url)))
    return _FONTS.sub("", screen.export_svg(title="matmul", unique_id="matmul"))


def main() -> None:
    with TemporaryDirectory() as directory, Stack(Path(directory), settings={"cpu_threads": "1"}) as stack:
        folder = Path(directory)
        rng = np.random.default_rng(0)
        np.save(folder / "a.npy", rng.standard_normal((1000, 300), dtype=np.float32))
        np.save(folder / "b.npy", rng.standard_normal((300, 2000), dtype=np.float32))
        for name, session in SESSIONS.items():
            svg = picture(session, folder, stack.url)
            if len(svg) > MAX_BYTES:
                raise RuntimeError(f"{name} has {len(svg)} bytes: show less")
            (IMAGES / f"{name}.svg").write_text(svg)
            print(f"docs/images/{name}.svg written")


if __name__ == "__main__":
    main()
