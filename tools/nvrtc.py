"""NVRTC out of its wheel, by ctypes: compiles CUDA C++ where there is no GPU and no CuPy."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.metadata import files
from importlib.metadata import version as package_version

from worker.cuda.sources import Program

WHEEL = "nvidia-cuda-nvrtc"
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_FUNCTION = re.compile(r"Compiling entry function '(\w+)'(.*?)(?=Compiling entry function|\Z)", re.DOTALL)
_LOCAL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")

# Advice too: that matrix instructions wait for each other is told as "Potential Performance Loss".
_WARNING = re.compile(r"warning|Performance Loss", re.IGNORECASE)


class CompileError(AssertionError):
    """The compiler's own words."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A cubin, and what its kernel takes of a device, as ptxas tells it."""

    binary: bytes
    registers: int  # of a thread
    local_bytes: int  # of a thread: what finds no place in registers, spilled or indexed
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int  # of a block
    warnings: tuple[str, ...]  # ptxas's own lines
    ptx: str


@cache
def library() -> ctypes.CDLL:
    """The compiler itself: NVRTC's functions in C."""
    found = [path for path in files(WHEEL) or () if path.name.startswith("libnvrtc.so")]
    assert found, f"the wheel {WHEEL} holds no libnvrtc.so"
    return ctypes.CDLL(str(found[0].locate()))


def compiler() -> str:
    """Which one, as in `NVRTC 13.4.14`."""
    return f"NVRTC {package_version(WHEEL)}"


@cache
def architectures() -> frozenset[str]:
    """The architectures that this NVRTC compiles for, such as `sm_90`."""
    count = ctypes.c_int()
    _check(library().nvrtcGetNumSupportedArchs(ctypes.byref(count)))
    found = (ctypes.c_int * count.value)()
    _check(library().nvrtcGetSupportedArchs(found))
    return frozenset(f"sm_{number}" for number in found)


def compile_program(program: Program, arch: str) -> Compiled:
    """Compiles for an `sm_…`. Raises CompileError."""
    functions, handle, included = library(), ctypes.c_void_p(), program.headers
    names = (ctypes.c_char_p * len(included))(*(name.encode() for name in included))
    texts = (ctypes.c_char_p * len(included))(*(text.encode() for text in included.values()))
    source, name = program.source.encode(), program.path.name.encode()
    _check(functions.nvrtcCreateProgram(ctypes.byref(handle), source, name, len(included), texts, names))
    try:
        options = [
            option.encode() for option in (*program.options, f"-arch={program.arch(arch)}", "--ptxas-options=-v")
        ]
        status = functions.nvrtcCompileProgram(handle, len(options), (ctypes.c_char_p * len(options))(*options))
        log = _bytes(functions.nvrtcGetProgramLog, handle).rstrip(b"\0").decode(errors="replace")
        if status:
            raise CompileError(f"{program.path.name} {options}: {log}")
        ptx = _bytes(functions.nvrtcGetPTX, handle).rstrip(b"\0").decode()
        return _compiled(_bytes(functions.nvrtcGetCUBIN, handle), ptx, log, program.path.stem)
    finally:
        functions.nvrtcDestroyProgram(ctypes.byref(handle))


def compile_all(asked: Iterable[tuple[Program, str]]) -> list[Compiled]:
    """On all cores: NVRTC compiles in as many threads as ask it to. Raises CompileError."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        pending = [pool.submit(compile_program, program, arch) for program, arch in asked]
        try:
            return [one.result() for one in pending]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _compiled(binary: bytes, ptx: str, log: str, name: str) -> Compiled:
    """ptxas tells every function of the file; the most that any takes counts, except for shared memory: what a pass has
    of it, the kernel named like the file does not need beside its own."""
    assert "Used" in log, f"ptxas does not say what the kernel takes: {log}"
    local, stores, loads = zip(*(map(int, found) for found in _LOCAL.findall(log)), strict=True)
    registers = max(map(int, _REGISTERS.findall(log)))
    own = dict(_FUNCTION.findall(log)).get(name, log)
    shared = max(map(int, _SHARED.findall(own)), default=0)
    warnings = tuple(line for line in log.splitlines() if _WARNING.search(line))
    return Compiled(binary, registers, max(local), max(stores), max(loads), shared, warnings, ptx)


def _bytes(get: ctypes._NamedFuncPointer, handle: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(library()[f"{get.__name__}Size"](handle, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(get(handle, buffer))
    return buffer.raw


def _check(status: int) -> None:
    assert status == 0, f"NVRTC answered {status}"
