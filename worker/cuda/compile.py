"""CUDA C++ to functions on the device, by NVRTC, kept on disk between starts.

NVRTC is called through CuPy's bindings rather than by `RawModule`, which always adds `-ftz=true`: subnormal numbers
would be lost, and products are to follow IEEE rules.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import cupy
import structlog
from cupy_backends.cuda.libs import nvrtc

from jobs.errors import KernelUnavailable
from worker.cuda.sources import Program

log = structlog.get_logger(__name__)


class Compiler:
    """For the current device. Functions are kept for the life of the process, binaries in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with suppress(OSError):  # then each kernel says that it could not be kept
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._arch = _arch(str(cupy.cuda.Device().compute_capability))
        self._version = ".".join(map(str, nvrtc.getVersion()))
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
            path = self._path(program)
            log.warning("a kept kernel could not be used and is compiled again", path=str(path), reason=str(error))
            path.unlink(missing_ok=True)
            return _loaded(self.binary(program))

    def binary(self, program: Program) -> bytes:
        """Kept from before, or compiled now. Several threads may ask at once. Raises KernelUnavailable."""
        if (unkept := self._unkept.get(program)) is not None:
            return unkept
        path = self._path(program)
        with suppress(OSError):
            return path.read_bytes()
        binary = compile_program(program, self._arch)
        if not _is_kept(path, binary):
            self._unkept[program] = binary
        return binary

    def has(self, program: Program) -> bool:
        """Whether it need not be compiled any more. For any thread; what was kept and is gone is compiled again."""
        if program in self._known:
            return True
        if program not in self._modules and program not in self._unkept and not self._path(program).exists():
            return False
        self._known.add(program)
        return True

    def _path(self, program: Program) -> Path:
        return self._directory / f"{program.key(self._arch, self._version)}.cubin"


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


def _arch(compute_capability: str) -> str:
    """The device's own, or, for one newer than this NVRTC, PTX of the newest that the driver can take further."""
    known = nvrtc.getSupportedArchs()
    wanted = int(compute_capability)
    return f"sm_{wanted}" if wanted in known else f"compute_{max(arch for arch in known if arch <= wanted)}"


def _loaded(binary: bytes) -> Any:
    module = cupy.cuda.Module()
    module.load(binary)
    return module


def _is_kept(path: Path, binary: bytes) -> bool:
    """Writes it, whole or not at all: another worker may read it now."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(binary)
        os.replace(file.name, path)
        return True
    except OSError as error:
        log.warning("a compiled kernel could not be kept", path=str(path), reason=str(error))
        return False
