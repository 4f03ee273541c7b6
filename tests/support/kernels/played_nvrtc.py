"""CuPy's bindings of NVRTC over the library of the wheel, where there is no CuPy: programs are really compiled. What a
module would load on a device is only kept.

`python -m tests.support.kernels.played_nvrtc DIRECTORY KERNEL …` is for a process of its own. It compiles these kernels
ahead, twice, and asks a compiler for them that finds them there. It prints what was compiled and what was found, and
what another compiler has of a program that does not compile and of two that come after it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

from jobs.errors import KernelUnavailable
from tools.nvrtc import architectures, library

ARCH = "sm_90"


class PlayedError(RuntimeError):
    """A status that is not 0."""


class Nvrtc(ModuleType):
    """As `cupy_backends.cuda.libs.nvrtc`."""

    NVRTCError = PlayedError

    def __init__(self) -> None:
        super().__init__("nvrtc")
        self.compiled = 0
        self.may_compile = True

    def getVersion(self) -> tuple[int, int]:
        major, minor = ctypes.c_int(), ctypes.c_int()
        library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return major.value, minor.value

    def getSupportedArchs(self) -> tuple[int, ...]:
        return tuple(sorted(int(arch.removeprefix("sm_")) for arch in architectures()))

    def createProgram(self, source: str, name: str, headers: Sequence[bytes], names: Sequence[bytes]) -> Any:
        if not self.may_compile:
            raise AssertionError(f"{name} is compiled though it was compiled ahead")
        handle, count = ctypes.c_void_p(), len(headers)
        texts, called = ((ctypes.c_char_p * count)(*each) for each in (headers, names))
        library().nvrtcCreateProgram(ctypes.byref(handle), source.encode(), name.encode(), count, texts, called)
        return handle

    def compileProgram(self, handle: Any, options: Sequence[str]) -> None:
        given = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if library().nvrtcCompileProgram(handle, len(options), given):
            raise PlayedError(str(options))
        self.compiled += 1

    def getProgramLog(self, handle: Any) -> str:
        return "as played"

    def getCUBIN(self, handle: Any) -> bytes:
        size = ctypes.c_size_t()
        library().nvrtcGetCUBINSize(handle, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        library().nvrtcGetCUBIN(handle, buffer)
        return buffer.raw

    def destroyProgram(self, handle: Any) -> None:
        library().nvrtcDestroyProgram(ctypes.byref(handle))


def install() -> Nvrtc:
    """In place of CuPy."""
    nvrtc, cupy, inner = Nvrtc(), MagicMock(name="cupy"), MagicMock(name="cupy_backends")
    cupy.cuda.Device.return_value.compute_capability = ARCH.removeprefix("sm_")
    cupy.cuda.driver.CUDADriverError = PlayedError
    inner.nvrtc = nvrtc
    within = ("cupy_backends", "cupy_backends.cuda", "cupy_backends.cuda.libs")
    sys.modules.update({"cupy": cupy, "pynvml": MagicMock(name="pynvml")} | dict.fromkeys(within, inner))
    return nvrtc


def main(directory: Path, kernels: Sequence[str]) -> None:
    nvrtc = install()
    from worker.cuda import compile as compiling
    from worker.cuda.ahead.__main__ import main as compile_ahead
    from worker.cuda.ahead.programs import programs_ahead, traits_of
    from worker.cuda.compile import Compiler
    from worker.cuda.sources import Program, digest_program

    setattr(os, "nice", lambda _: 0)  # noqa: B010  # at the lowest priority a busy machine would hardly run it
    shipped = directory / "shipped"
    status = compile_ahead(["--directory", str(shipped), ARCH, "--kernels", *kernels])
    again = compile_ahead(["--directory", str(shipped), ARCH, "--kernels", *kernels])
    nvrtc.may_compile = False
    compiler = Compiler(directory / "own", shipped)
    programs = programs_ahead(traits_of(ARCH), kernels)
    found = [compiler.function(program, program.path.stem) for program in programs if compiler.has(program)]
    words = {
        "status": [status, again],
        "programs": sorted({program.path.name for program in programs}),
        "asked": len(programs),
        "compiled": nvrtc.compiled,
        "found": len(found),
        "own": sorted(path.name for path in (directory / "own").glob("*")),
    }
    nvrtc.may_compile = True
    setattr(compiling, "usable_cores", lambda: 1)  # noqa: B010  # so that each waits for the one before
    (directory / "broken.cu").write_text("__global__ int broken( {")
    (directory / "short.cu").write_text('extern "C" __global__ void short_one() {}')
    broken, short = (Program(directory / name, ()) for name in ("broken.cu", "short.cu"))
    asked, another = [broken, digest_program(), short], Compiler(directory / "another")
    try:
        another.compile_all(asked)
    except KernelUnavailable as error:
        words |= {"refused": error.detail, "has": [another.has(each) for each in asked]}
    print(json.dumps(words))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
