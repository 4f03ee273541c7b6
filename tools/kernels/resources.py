"""Compiles every CUDA kernel and writes what it takes of a device into kernels/resources/.

python -m tools.kernels.resources [--check] [KERNEL…]

Every config is compiled for every architecture in the kernel's main element type, and for the H200's in one other, in
turn; for each architecture and type also what a request without config gets. What was compiled before from the same
source, headers and options by the same compiler is not compiled again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from kernels.catalog import CATALOG
from kernels.model.architectures import ARCHITECTURES, H200
from kernels.model.entry.config import TileConfig
from kernels.model.kernel import CudaKernel
from kernels.model.numerics import DTypeName, Problem
from kernels.resources import COLUMNS, DIRECTORY, ConfigRecord, KernelRecords, path_of, read
from kernels.selection.defaults import default_configs, main_dtype
from kernels.text_files import read_text, write_text
from tools.nvrtc import Compiled, architectures, compile_all, compiler
from worker.cuda.sources import Program, kernel_program

KEY_DIGITS = 16
KERNELS = tuple(kernel for kernel in CATALOG if isinstance(kernel, CudaKernel))
NAMES = tuple(kernel.name for kernel in KERNELS)


@dataclass(frozen=True)
class CompiledCase:
    """One config and element type of a kernel, to be compiled for some architectures."""

    kernel: CudaKernel = field(repr=False)
    dtype: DTypeName
    config: TileConfig
    archs: tuple[str, ...]

    @property
    def problem(self) -> Problem:
        return Problem(1, 1, 1, self.dtype)

    @cached_property
    def program(self) -> Program:
        return kernel_program(self.kernel, self.config, self.problem)

    @cached_property
    def key(self) -> str:
        """Of all that the compiled figures follow from."""
        keys = [self.program.key(arch, compiler()) for arch in self.archs]
        return hashlib.sha256("\0".join(keys).encode()).hexdigest()[:KEY_DIGITS]

    def record(self, static_shared_bytes: int, compiled: Mapping[str, tuple[int, int, int, int]]) -> ConfigRecord:
        return ConfigRecord(
            dtype=self.dtype,
            config=compiled_part(self.kernel, self.config),
            static_shared_bytes=static_shared_bytes,
            dynamic_shared_bytes=self.kernel.plan(self.problem, self.config).main.shared_bytes,
            compiled=compiled,
            key=self.key,
        )


def usage(compiled: Compiled) -> tuple[int, int, int, int]:
    """COLUMNS."""
    registers, local, stores, loads = (getattr(compiled, column) for column in COLUMNS)
    return registers, local, stores, loads


def archs_of(kernel: CudaKernel, dtype: DTypeName) -> list[str]:
    """Those that run it, and that this compiler knows."""
    known = (arch for arch in ARCHITECTURES.values() if arch.name in architectures())
    return [arch.name for arch in known if kernel.unsupported_because(arch.traits, dtype) is None]


def compiled_part(kernel: CudaKernel, config: TileConfig) -> TileConfig:
    """The part of a config that the compiler is given; the rest is the launch's alone."""
    return {p.name: config[p.name] for p in kernel.parameters if p.compiled}


def cases(kernel: CudaKernel) -> Iterator[CompiledCase]:
    """All that is compiled of a kernel."""

    def case_key(dtype: DTypeName, arch: str, config: TileConfig) -> tuple[object, ...]:
        return (dtype, arch, *compiled_part(kernel, config).values())

    archs = {dtype: archs_of(kernel, dtype) for dtype in kernel.dtypes}
    defaults = {
        case_key(default.dtype, default.architecture.name, default.config) for default in default_configs(kernel)
    }
    main, others = main_dtype(kernel), [dtype for dtype in kernel.dtypes if dtype != main_dtype(kernel)]
    # Of configs that are compiled alike, one.
    configs = {tuple(compiled_part(kernel, config).values()): config for config in kernel.configs()}
    for index, config in enumerate(configs.values()):
        next_dtype = others[index % len(others)] if others else None
        for dtype in kernel.dtypes:
            chosen = [
                arch
                for arch in archs[dtype]
                if dtype == main
                or (dtype == next_dtype and arch == one_of(archs[dtype]))
                or case_key(dtype, arch, config) in defaults
            ]
            if chosen and kernel.misfit(config, dtype) is None:
                yield CompiledCase(kernel, dtype, config, tuple(chosen))


def one_of(archs: Sequence[str]) -> str:
    return H200.name if H200.name in archs else archs[0]


def compile_cases(asked: Sequence[CompiledCase]) -> list[ConfigRecord]:
    """Raises CompileError."""
    compiled = iter(compile_all((case.program, arch) for case in asked for arch in case.archs))
    return [_record(case, [next(compiled) for _ in case.archs]) for case in asked]


def _record(case: CompiledCase, compiled: Sequence[Compiled]) -> ConfigRecord:
    shared = max(one.static_shared_bytes for one in compiled)
    return case.record(shared, dict(zip(case.archs, map(usage, compiled), strict=True)))


def recorded(kernel: CudaKernel, directory: Path = DIRECTORY) -> dict[str, ConfigRecord]:
    """The kernel's records by key."""
    path = path_of(kernel.name, directory)
    return {record.key: record for record in read(path).records} if path.exists() else {}


def stale(asked: Iterable[CompiledCase], known: Mapping[str, ConfigRecord]) -> list[CompiledCase]:
    """Those without a record."""
    return [case for case in asked if case.key not in known]


def table(kernel: CudaKernel, asked: Iterable[CompiledCase], known: Mapping[str, ConfigRecord]) -> KernelRecords:
    """The kernel's file, from records of all its cases. What follows from the entry alone is written anew."""
    old = ((case, known[case.key]) for case in asked)
    records = tuple(case.record(record.static_shared_bytes, record.compiled) for case, record in old)
    return KernelRecords(kernel=kernel.name, compiler=compiler(), columns=COLUMNS, records=records)


def text(table: KernelRecords) -> str:
    """One record a line."""
    head = json.dumps({"kernel": table.kernel, "compiler": table.compiler, "columns": table.columns})
    records = ",\n".join(json.dumps(asdict(record)) for record in table.records)
    return f'{head[:-1]}, "records": [\n{records}\n]}}\n'


def up_to_date(kernel: CudaKernel) -> bool:
    """Whether the kernel's file is what would be written; nothing is compiled to find out."""
    asked, known = list(cases(kernel)), recorded(kernel)
    return not stale(asked, known) and read_text(path_of(kernel.name)) == text(table(kernel, asked, known))


def write(kernel: CudaKernel, directory: Path = DIRECTORY) -> int:
    """Compiles what its file does not have, and writes it; how many records that were. Raises CompileError."""
    asked, known = list(cases(kernel)), recorded(kernel, directory)
    made = compile_cases(stale(asked, known))
    known |= {record.key: record for record in made}
    directory.mkdir(exist_ok=True)
    write_text(path_of(kernel.name, directory), text(table(kernel, asked, known)))
    return len(made)


def surplus(directory: Path = DIRECTORY) -> list[Path]:
    """What is no kernel's file: of kernels that the catalogue does not have any more, or named otherwise."""
    return sorted({*directory.glob("*")} - {path_of(name, directory) for name in NAMES})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", help="only these")
    parser.add_argument("--check", action="store_true", help="compile and write nothing; exit 1 if a file is outdated")
    options = parser.parse_args()
    outdated = [kernel for kernel in KERNELS if kernel.name in (options.kernels or NAMES) and not up_to_date(kernel)]
    for kernel in outdated:
        outcome = "outdated: make kernel-resources" if options.check else f"{write(kernel)} compiled"
        print(f"{kernel.name}: {outcome}", flush=True)
    for path in surplus():
        print(f"{path.name} is of no kernel of the catalogue")
        if not options.check:
            path.unlink()
    sys.exit(1 if options.check and (outdated or surplus()) else 0)


if __name__ == "__main__":
    main()
