"""The compiled code of each CUDA kernel, PTX and SASS, recorded for one architecture by `make assembly`: one compressed
file per kernel in `assembly/`. Not every kernel has one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from kernels.families import FAMILIES
from kernels.model.architectures import H200
from kernels.model.numerics import DTypeName
from kernels.strict_json import parse
from kernels.text_files import read_text

DIRECTORY = Path(__file__).parent / "assembly"
ARCHITECTURE = H200
# The full texts of these ship with the package, for readers: the ladder, and one of the newest kind. They are large.
SHOWN = frozenset({*next(family.names for family in FAMILIES if family.steps), "hopper_bf16"})

_SASS = re.compile(r"^\s*(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*(?:\.[A-Za-z0-9_]+)*)[\s;]", re.MULTILINE)
_PTX = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z][a-z0-9_]*(?:\.[a-z0-9_:]+)*)\s+[%\[{]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembly:
    """The compiled code of a kernel at one config and element type. `counts` has the number of occurrences of each
    instruction in each form; SASS is missing if it was recorded without nvdisasm. Texts are kept only for kernels in
    `SHOWN`; otherwise they are empty.
    """

    kernel: str
    dtype: DTypeName
    config: Mapping[str, int]
    arch: str  # as the compiler was told
    compiler: str
    key: str  # of source, headers and options
    counts: Mapping[str, Mapping[str, int]]  # by form
    ptx: str
    sass: str

    def text(self, form: str) -> str:
        return self.sass if form == "sass" else self.ptx

    def instructions(self, form: str) -> Counter[str]:
        """The number of occurrences of each instruction, by its name up to the first dot, plus the width of loads."""
        return Counter(self.counts.get(form, {}))


def counted(text: str, form: str) -> dict[str, int]:
    """The instructions of a text, the most frequent first."""
    found = (_SASS if form == "sass" else _PTX).findall(text)
    return dict(Counter(_family(name) for name in found).most_common())


_WIDTHS = {"128", "64", "v4", "v2"}


def _family(name: str) -> str:
    """`LDS.U.128` is `LDS.128`, `ld.shared.v4.f32` is `ld.shared.v4`."""
    first, *rest = name.split(".")
    places = [part for part in rest if part in ("shared", "global", "local", "sync", "async", "bulk", "SYNC", "BULK")]
    widths = [part for part in rest if part in _WIDTHS]
    return ".".join([first, *dict.fromkeys(places), *widths[:1]])


def path_of(kernel: str, directory: Path = DIRECTORY) -> Path:
    """Its file, which need not exist."""
    return directory / f"{kernel}.json.xz"


def read(path: Path) -> Assembly:
    """Raises DataError for a file that breaks the schema, LZMAError for one that is no such file."""
    return parse(Assembly, read_text(path), path.name)


@lru_cache(maxsize=8)
def assembly_of(kernel: str) -> Assembly | None:
    """The recorded code of a kernel; None if nothing was recorded. Raises DataError."""
    path = path_of(kernel)
    return read(path) if path.exists() else None
