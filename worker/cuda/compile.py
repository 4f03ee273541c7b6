"""CUDA C++ to functions on the device, by NVRTC, kept on disk between starts.

NVRTC is called through CuPy's bindings rather than by `RawModule`, which always adds `-ftz=true`: subnormal numbers
would be lost, and products are to follow IEEE rules.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import cupy
import structlog
from cupy_backends.cuda.libs import nvrtc

from jobs.errors import KernelUnavailable
from worker.cpu.device import usable_cores
from worker.cuda.sources import Program

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KernelFiles:
    """Compiled programs on disk, each under its key: `directory` is ours to write, `shipped` came with an image."""

    directory: Path
    arch: str  # `sm_…`, or `compute_…` for PTX
    shipped: Path | None = None

    def find(self, program: Program) -> Path | None:
        """Our own goes first: it is in place of a shipped one that could not be used."""
        name = self._name(program)
        places = (place / name for place in (self.directory, self.shipped) if place is not None)
        return next((path for path in places if path.exists()), None)

    def read(self, program: Program) -> bytes | None:
        path = self.find(program)
        with suppress(OSError):
            return path.read_bytes() if path is not None else None
        return None

    def keep(self, program: Program, binary: bytes) -> bool:
        """Written whole or not at all: another worker may read it now."""
        path = self.directory / self._name(program)
        try:
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self.directory, delete=False) as file:
                file.write(binary)
            os.replace(file.name, path)
            return True
        except OSError as error:
            log.warning("a compiled kernel could not be kept", path=str(path), reason=str(error))
            return False

    def _name(self, program: Program) -> str:
        return f"{program.key(self.arch, compiler_version())}.cubin"


class Compiler:
    """Compiles for the current device. Functions are kept for the life of the process, binaries in `directory`. What is
    in `shipped` is not compiled."""

    def __init__(self, directory: Path, shipped: Path | None = None) -> None:
        arch = arch_for(int(cupy.cuda.Device().compute_capability))
        self._files = KernelFiles(directory, arch, shipped)
        self._loading = Lock()
        self._modules: dict[Program, Any] = {}
        self._unkept: dict[Program, bytes] = {}  # binaries that the disk did not take
        self._known: set[Program] = set()  # that are compiled, here or on disk

    def function(self, program: Program, name: str) -> Any:
        """The `extern "C"` function `name`. Raises KernelUnavailable where the source does not compile."""
        with self._loading:
            module = self._modules.get(program)
            if module is None:
                module = self._modules[program] = self._module(program)
        return module.get_function(name)

    def _module(self, program: Program) -> Any:
        try:
            return _loaded(self.binary(program))
        except cupy.cuda.driver.CUDADriverError as error:
            path = self._files.find(program)
            log.warning("a kept kernel could not be used and is compiled again", path=str(path), reason=str(error))
            return _loaded(self._compiled(program))

    def binary(self, program: Program) -> bytes:
        """Kept from before, or compiled now. Several threads may ask at once. Raises KernelUnavailable."""
        if (unkept := self._unkept.get(program)) is not None:
            return unkept
        kept = self._files.read(program)
        return self._compiled(program) if kept is None else kept

    def compile_all(self, programs: Collection[Program]) -> None:
        """Compiles those programs that are not compiled yet, on all cores. Raises KernelUnavailable, after all others
        are compiled."""
        if missing := [program for program in programs if not self.has(program)]:
            with ThreadPoolExecutor(usable_cores()) as pool:
                done = [pool.submit(self.binary, program) for program in missing]
            for each in done:
                each.result()

    def _compiled(self, program: Program) -> bytes:
        binary = compile_program(program, self._files.arch)
        if not self._files.keep(program, binary):
            self._unkept[program] = binary
        return binary

    def has(self, program: Program) -> bool:
        """Whether it need not be compiled any more. For any thread; what was kept and is gone is compiled again."""
        if program in self._known:
            return True
        if program not in self._modules and program not in self._unkept and self._files.find(program) is None:
            return False
        self._known.add(program)
        return True


def compile_program(program: Program, arch: str) -> bytes:
    """A cubin for `sm_…`, PTX for `compute_…`. Raises KernelUnavailable with the compiler's own words in the log."""
    included = {name.encode(): text.encode() for name, text in program.headers.items()}
    handle = nvrtc.createProgram(program.source, program.path.name, list(included.values()), list(included))
    try:
        nvrtc.compileProgram(handle, (*program.options, f"-arch={program.arch(arch)}"))
        binary: bytes = nvrtc.getCUBIN(handle) if arch.startswith("sm_") else nvrtc.getPTX(handle)
    except nvrtc.NVRTCError as error:
        log.error("a kernel does not compile", source=program.path.name, said=nvrtc.getProgramLog(handle))
        raise KernelUnavailable(f"{program.path.name} does not compile for {arch} here; the log says why.") from error
    finally:
        nvrtc.destroyProgram(handle)
    return binary


def arch_for(compute_capability: int) -> str:
    """The device's own (90 is `sm_90`), or, for one newer than this NVRTC, PTX of the newest that the driver can take
    further."""
    known = nvrtc.getSupportedArchs()
    if compute_capability in known:
        return f"sm_{compute_capability}"
    return f"compute_{max(arch for arch in known if arch <= compute_capability)}"


def compiler_version() -> str:
    """NVRTC's version, such as `13.4`. It is part of a kernel's cache key; the versions of the driver and of CuPy are
    not.
    """
    return ".".join(map(str, nvrtc.getVersion()))


def _loaded(binary: bytes) -> Any:
    module = cupy.cuda.Module()
    module.load(binary)
    return module
