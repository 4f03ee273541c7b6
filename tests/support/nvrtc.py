"""NVRTC out of its wheel, by ctypes: compiles CUDA C++ where there is no GPU and no CuPy."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.metadata import files

from worker.sources import Program, headers


class CompileError(AssertionError):
    """The compiler's own words."""


@cache
def _library() -> ctypes.CDLL:
    found = [path for path in files("nvidia-cuda-nvrtc") or () if path.name.startswith("libnvrtc.so")]
    assert found, "the wheel nvidia-cuda-nvrtc holds no libnvrtc.so"
    return ctypes.CDLL(str(found[0].locate()))


def compile_program(program: Program, arch: str) -> bytes:
    """The cubin for an `sm_…`. Raises CompileError."""
    library, handle, included = _library(), ctypes.c_void_p(), headers()
    names = (ctypes.c_char_p * len(included))(*(name.encode() for name in included))
    texts = (ctypes.c_char_p * len(included))(*(text.encode() for text in included.values()))
    source, name = program.source.encode(), program.path.name.encode()
    _check(library.nvrtcCreateProgram(ctypes.byref(handle), source, name, len(included), texts, names))
    try:
        options = [option.encode() for option in (*program.options, f"-arch={arch}")]
        status = library.nvrtcCompileProgram(handle, len(options), (ctypes.c_char_p * len(options))(*options))
        if status:
            raise CompileError(f"{program.path.name} {options}: {_text(library.nvrtcGetProgramLog, handle)}")
        return _bytes(library.nvrtcGetCUBIN, handle)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(handle))


def _bytes(get: ctypes._NamedFuncPointer, handle: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _check(_library()[f"{get.__name__}Size"](handle, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(get(handle, buffer))
    return buffer.raw


def _text(get: ctypes._NamedFuncPointer, handle: ctypes.c_void_p) -> str:
    return _bytes(get, handle).rstrip(b"\0").decode(errors="replace")


def _check(status: int) -> None:
    assert status == 0, f"NVRTC answered {status}"
