"""Libraries out of CUDA sources, each a kernel in one config, and the program that launches them."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from threading import Lock

import pytest

from kernels.model.sources import include_options
from worker.cuda.sources import Program

CHECKOUT = Path(__file__).resolve().parents[2]
EMULATOR = CHECKOUT / "tools" / "emulator"
SOURCES = (
    EMULATOR,
    CHECKOUT / "kernels" / "cuda",
    CHECKOUT / "worker" / "cuda" / "src",
    CHECKOUT / "tests" / "emulation",
)
# For programs that threads start. The process's own may not be read there: pytest changes it at every test.
ENVIRONMENT = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}  # kernels allocate nothing
LAUNCHER = ("block", "bulk", "copies", "fiber", "lines", "main", "memory", "shared")
# Who gives threads their turns, and what reckons: they touch no memory of a kernel, and take twice as long where they
# are watched.
UNWATCHED = ("block", "fiber", "lines")
PLAIN_FLAGS = (
    "-std=c++20",
    f"-I{EMULATOR}",
    "-Og",
    "-g1",  # lines in the sanitizers' reports
    "-fno-omit-frame-pointer",
)
FLAGS = (
    *PLAIN_FLAGS,
    "-fsanitize=address,undefined",
    "-fno-sanitize=null,pointer-overflow",  # where such a pointer is followed, the address sanitizer says so
    "-fno-sanitize-recover=all",
    "-fsanitize-sections=block_shared",  # shared memory too
    "-ftrivial-auto-var-init=pattern",  # what a thread never wrote is garbage
)


@cache
def compiler() -> str:
    found = shutil.which("g++")
    if found is None and "CI" not in os.environ:
        pytest.skip("g++ is needed to run kernels on the CPU")
    assert found, "g++ is needed to run kernels on the CPU"
    return found


def digest_of_sources() -> str:
    """It changes with everything that libraries and the launcher are made of, but for the options of each."""
    command = [compiler(), "--version"]
    digest = hashlib.sha256(subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT).stdout)
    files = (path for folder in SOURCES for path in folder.rglob("*") if path.suffix in (".cpp", ".hpp", ".cu", ".cuh"))
    for path in (Path(__file__), *sorted(files)):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(CHECKOUT)} {len(text)}\n".encode() + text)
    return digest.hexdigest()[:16]


def compile_host_program(source: Path, program: Path, *options: str) -> Path:
    """A program around some of the kernels' headers, which is no kernel itself. Returns `program`."""
    command: list[str | Path] = [compiler(), *FLAGS, *options, *include_options(), "-o", program, source]
    subprocess.run(command, check=True, env=ENVIRONMENT)
    return program


def output_of(program: Path, given: str = "") -> str:
    """What it prints for this input."""
    done = subprocess.run([program], input=given, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    return done.stdout


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel in a library, and the program that launches it. `name`: among the library's others."""

    launcher: Path
    library: Path
    name: str | None = None

    @property
    def command(self) -> list[str | Path]:
        return [self.launcher, self.library, *([self.name] if self.name is not None else [])]


class Emulator:
    """Compiles the launcher once, and a library for each kernel that is asked for, once each. For any thread.
    `directory`: what it has of both, from these sources, is not compiled again."""

    def __init__(self, directory: Path, pool: Executor) -> None:
        self.directory = directory
        self.numbers = itertools.count()
        self.lock = Lock()
        self.compiled: dict[tuple[Program, str], Future[Compiled]] = {}
        self.objects = [pool.submit(self._compile, name) for name in LAUNCHER]
        self.launcher = pool.submit(self._link)

    def compile(self, program: Program, symbol: str) -> Compiled:
        """A library around `symbol` of the program's source. Raises AssertionError with the compiler's own words."""
        own: Future[Compiled] = Future()
        with self.lock:
            shared = self.compiled.setdefault((program, symbol), own)
        if shared is own:
            try:
                own.set_result(self._compile_library(program, symbol))
            except BaseException as error:
                own.set_exception(error)
        return shared.result()

    def compile_each(self, program: Program, symbols: Sequence[str]) -> dict[str, Compiled]:
        """All in one library: most of what takes time is common to them."""
        first, *others = symbols
        made = self._compile_library(program, first, others)
        return {first: made} | {name: replace(made, name=name) for name in others}

    def _compile_library(self, program: Program, symbol: str, others: Sequence[str] = ()) -> Compiled:
        macros = [option for option in program.options if option.startswith("-D")]
        instructions = (
            name for name in ("wmma", "dmma", "hopper", "hopper_mma", "hopper_dmma") if f"{name}.cuh" in program.headers
        )
        fragments = [word for name in instructions for word in ("-include", str(EMULATOR / f"{name}_emulated.hpp"))]
        named = [f"-DOTHER_KERNELS={' '.join(f'OTHER_KERNEL({name})' for name in others)}"] if others else []
        own = (*macros, *include_options(), f"-DKERNEL={symbol}", *fragments, *named)
        # Without libraries, which the launcher brings, linking takes next to no time.
        around = str(EMULATOR / "kernel.cpp")
        options = (*own, f'-DSOURCE="{program.path}"', "-fPIC", "-shared", "-nostdlib", around, "-lgcc")
        texts = (program.source, *program.headers.values())  # of any folder: some tests make mistakes in a copy
        digest = hashlib.sha256("\0".join((*own, *texts)).encode()).hexdigest()[:16]
        return Compiled(self.launcher.result(), self._made(f"{symbol}-{digest}.so", *options))

    def _compile(self, name: str) -> Path:
        flags = PLAIN_FLAGS if name in UNWATCHED else FLAGS
        source = EMULATOR / f"{name}.cpp"
        return self._made(f"{name}.o", "-c", "-O2", source, flags=flags)  # all kernels run on it

    def _link(self) -> Path:
        objects = (compiled.result() for compiled in self.objects)
        return self._made("launcher", "-rdynamic", *objects)  # libraries use its symbols

    def _made(self, name: str, *options: str | Path, flags: Sequence[str] = FLAGS) -> Path:
        """What has this name here; it is compiled where there is none."""
        target = self.directory / name
        if not target.exists():
            whole = self.directory / f"{name}-{os.getpid()}-{next(self.numbers)}"  # another process may do the same
            command = [compiler(), *flags, "-o", whole, *options]
            done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
            assert done.returncode == 0, done.stderr
            whole.replace(target)
        return target
