"""What the compiler says of the programs that tests ask about: kernels with every transposition, for the H200, and what
runs around a kernel, for every architecture.

It is on record by a key made of source, headers, options, architecture and compiler, as in kernels/resources/, which
has every config, but neither transpositions nor warnings. A figure under a key came from compiling just that, so a
program is compiled again only after a change. `python -m tests.support.kernels.compiled` writes the record.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path

from kernels.model.architectures import H200
from tests.support.programs import programs
from tools.nvrtc import Compiled, compile_all, compiler
from worker.cuda.sources import Program

RECORD = Path(__file__).resolve().parents[2] / "unit" / "data" / "compiled.json"
KEY_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Figures:
    """What ptxas tells of a program, and how often it warns."""

    registers: int
    local_bytes: int
    static_shared_bytes: int
    warnings: int


def key_of(asked: Program, arch: str = H200.name) -> str:
    return asked.key(arch, compiler())[:KEY_DIGITS]


@cache
def recorded() -> dict[str, Figures]:
    return {key: Figures(*figures) for key, figures in json.loads(RECORD.read_text("utf-8"))["records"].items()}


def figures_of(asked: Iterable[Program], arch: str = H200.name) -> list[Figures]:
    """Those on record and, of programs that have none, those from compiling them now. Raises CompileError."""
    return _figures_of((each, arch) for each in asked)


def _figures_of(asked: Iterable[tuple[Program, str]]) -> list[Figures]:
    by_key = [(key_of(*each), each) for each in asked]
    missing = {key: each for key, each in by_key if key not in recorded()}
    known = recorded() | dict(zip(missing, compile_now(missing.values()), strict=True))
    return [known[key] for key, _ in by_key]


def compile_now(asked: Iterable[tuple[Program, str]]) -> list[Figures]:
    """Raises CompileError, and AssertionError for a binary without the program's own function."""
    asked = list(asked)
    return [_figures(each, found) for (each, _), found in zip(asked, compile_all(asked), strict=True)]


def _figures(asked: Program, compiled: Compiled) -> Figures:
    assert asked.path.stem.encode() in compiled.binary
    return Figures(compiled.registers, compiled.local_bytes, compiled.static_shared_bytes, len(compiled.warnings))


def main() -> None:
    asked = {key_of(*each): each for each in programs()}
    found = dict(zip(asked, _figures_of(asked.values()), strict=True))
    records = ",\n".join(f'"{key}": {json.dumps(astuple(found[key]))}' for key in sorted(found))
    columns = json.dumps([field.name for field in fields(Figures)])
    RECORD.write_text(f'{{"columns": {columns}, "records": {{\n{records}\n}}}}\n', "utf-8")


if __name__ == "__main__":
    main()
