"""Compiles every CUDA kernel at the config its own page shows, and writes what the compiler made of it into
kernels/assembly/: PTX, and SASS where nvdisasm is on PATH (or named by NVDISASM).

python -m tools.kernels.assembly [--check] [KERNEL…]

With --check nothing is written, and the exit status is 1 where a record is of another source, header or option.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import orjson

from kernels.assembly import ARCHITECTURE, DIRECTORY, SHOWN, Assembly, counted, path_of, read
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import Problem
from kernels.selection.defaults import default_config, main_dtype
from kernels.text_files import write_text
from tools.kernels.resources import KERNELS
from tools.nvrtc import compile_program, compiler
from worker.cuda.sources import Program, kernel_program

_ADDRESS = re.compile(r"^\s*/\*[0-9a-f]+\*/\s*")
_SASS_NOISE = re.compile(r"^\s*(//|/\*|\.(?!L_))")
_PTX_NOISE = re.compile(r"^\s*(//|\.loc|\.file|$)")


def program_of(kernel: CudaKernel) -> tuple[Program, dict[str, int]]:
    """At the config that large products get without asking for one."""
    config = default_config(kernel, ARCHITECTURE.traits)
    return kernel_program(kernel, config, Problem(1, 1, 1, main_dtype(kernel))), dict(config)


def key_of(kernel: CudaKernel) -> str:
    """A hash of everything that determines the text, except the compiler's version, which differs between machines."""
    return program_of(kernel)[0].key(ARCHITECTURE.name, "any")[:16]


def made(kernel: CudaKernel) -> Assembly:
    """Raises CompileError."""
    program, config = program_of(kernel)
    compiled = compile_program(program, ARCHITECTURE.name)
    texts = {"ptx": _own_ptx(compiled.ptx, kernel.name), "sass": _sass(compiled.binary, kernel.name)}
    is_shown = kernel.name in SHOWN
    return Assembly(
        kernel=kernel.name,
        dtype=main_dtype(kernel),
        config=config,
        arch=program.arch(ARCHITECTURE.name),
        compiler=compiler(),
        key=key_of(kernel),
        counts={form: counted(text, form) for form, text in texts.items() if text},
        ptx=texts["ptx"] if is_shown else "",
        sass=texts["sass"] if is_shown else "",
    )


def _own_ptx(text: str, name: str) -> str:
    """The head, and the kernel that the file is named for: passes before and after it are left out."""
    lines = [line.strip("\n") for line in text.splitlines() if not _PTX_NOISE.match(line)]
    head = [line for line in lines[:3] if line.startswith((".version", ".target", ".address_size"))]
    begin = next(at for at, line in enumerate(lines) if re.search(rf"\.entry {name}\b", line))
    end = next(at for at, line in enumerate(lines[begin:], begin) if line == "}")
    return "\n".join([*head, *lines[begin : end + 1]])


def _sass(binary: bytes, name: str) -> str:
    """The kernel's SASS without addresses and encodings; empty without nvdisasm."""
    tool = os.environ.get("NVDISASM") or shutil.which("nvdisasm")
    if tool is None:
        return ""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run([tool, "-c", file.name], check=True, capture_output=True, text=True).stdout
    sections = re.split(r"^//-+ \.text\.", text, flags=re.MULTILINE)
    own = next(section for section in sections if section.split(None, 1)[0] == name)
    lines = (_ADDRESS.sub("    ", line.rstrip()) for line in own.splitlines()[1:])
    return "\n".join(line for line in lines if line.strip() and not _SASS_NOISE.match(line))


def write(assembly: Assembly) -> None:
    write_text(path_of(assembly.kernel), orjson.dumps(assembly).decode())


def is_current(kernel: CudaKernel, directory: Path = DIRECTORY) -> bool:
    path = path_of(kernel.name, directory)
    return path.is_file() and read(path).key == key_of(kernel)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.kernels.assembly", description="PTX and SASS of kernels.")
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a record is out of date")
    parser.add_argument("kernels", nargs="*", help="these alone")
    chosen = parser.parse_args(arguments)
    asked = [kernel for kernel in KERNELS if not chosen.kernels or kernel.name in chosen.kernels]
    old = [kernel for kernel in asked if not is_current(kernel)]
    if chosen.check:
        print("\n".join(f"{kernel.name} is out of date" for kernel in old), file=sys.stderr)
        return 1 if old else 0
    DIRECTORY.mkdir(exist_ok=True)
    for kernel in asked if chosen.kernels else old:
        write(made(kernel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
