"""A wall clock that is off, for the processes that are started with it (`machine_clock.c`)."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).with_name("machine_clock.c")


class Clock:
    """Processes with `environment`, and their children, have it."""

    def __init__(self, environment: Mapping[str, str], offset: mmap.mmap) -> None:
        self.environment, self._offset = environment, offset

    def set_ahead(self, seconds: int) -> None:
        """At once, by so much in all. A negative number: behind."""
        self._offset[:8] = struct.pack("<q", seconds)


def compiler() -> str | None:
    """What compiles the library that `own_clock` preloads, where it is installed."""
    return shutil.which("g++")


@contextmanager
def own_clock(directory: Path) -> Iterator[Clock]:
    """One that is right until it is set. It has a directory of its own, whose name must not contain a blank."""
    with_compiler = compiler()
    assert with_compiler is not None, "compiler() is asked first"
    directory.mkdir()
    library, offset = directory / "machine_clock.so", directory / "offset"
    subprocess.run([with_compiler, "-xc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    offset.write_bytes(bytes(8))
    with offset.open("r+b") as file, mmap.mmap(file.fileno(), 8) as mapped:
        yield Clock({"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}, mapped)
