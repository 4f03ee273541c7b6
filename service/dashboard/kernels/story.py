"""A kernel's source compared with that of the previous rung, and the picture of what its threads access."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from typing import Literal
from xml.etree import ElementTree

from markupsafe import Markup

from kernels.catalog import BY_NAME
from kernels.families import rung_before
from kernels.model.kernel import CudaKernel
from kernels.model.sources import source_files
from service.dashboard.kernels.highlight import highlighted
from service.dashboard.render import STATIC_DIR, static

AROUND = 3  # unchanged lines shown on both sides of a change
INCLUDE = re.compile(r'^#include "([\w.]+)"', re.MULTILINE)
SVG = "{http://www.w3.org/2000/svg}"
Kind = Literal["same", "removed", "added"]
MARKS: dict[Kind, str] = {"same": " ", "removed": "−", "added": "+"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of either source, numbered as in its own file; an unchanged line has the later file's number."""

    kind: Kind
    number: int
    text: Markup

    @property
    def mark(self) -> str:
        return MARKS[self.kind]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes from one source to another, as separate hunks."""

    before: str  # the kernel that it is compared with
    places: tuple[tuple[Line, ...], ...]

    def count(self, kind: Kind) -> int:
        return sum(line.kind == kind for place in self.places for line in place)


@dataclass(frozen=True, slots=True)
class AccessPicture:
    """A picture in the package: its address, size in pixels, and alternative text."""

    address: str
    width: int
    height: int
    description: str


@cache
def source_of(name: str) -> tuple[Markup, ...]:
    """A kernel's highlighted source lines; empty for a library."""
    return highlighted("\n".join(_text(name)))


@cache
def headers_of(name: str) -> dict[str, tuple[Markup, ...]]:
    """The files that a source includes, in order of inclusion, with their highlighted lines."""
    found: dict[str, tuple[Markup, ...]] = {}
    met = INCLUDE.findall("\n".join(_text(name)))
    while met:
        file = met.pop(0)
        if file not in found:
            source = source_files()[file].read_text("utf-8")
            found[file] = highlighted(source)
            met = [*INCLUDE.findall(source), *met]
    return found


@cache
def changes_of(name: str) -> Changes | None:
    """The changes since the previous rung; None for the first rung and for kernels outside the ladder."""
    before = rung_before(name)
    return Changes(before, tuple(map(tuple, _places(before, name)))) if before else None


def _text(name: str) -> list[str]:
    kernel = BY_NAME[name]
    return kernel.source_path.read_text("utf-8").splitlines() if isinstance(kernel, CudaKernel) else []


def _places(before: str, after: str) -> Iterator[Iterator[Line]]:
    matcher = SequenceMatcher(a=_text(before), b=_text(after), autojunk=False)
    for group in matcher.get_grouped_opcodes(AROUND):
        yield (line for step in group for line in _lines(before, after, step))


def _lines(before: str, after: str, step: tuple[str, int, int, int, int]) -> Iterator[Line]:
    tag, old, old_end, new, new_end = step
    if tag != "equal":
        yield from _numbered("removed", before, old, old_end)
    yield from _numbered("same" if tag == "equal" else "added", after, new, new_end)


def _numbered(kind: Kind, name: str, begin: int, end: int) -> Iterator[Line]:
    for index in range(begin, end):
        yield Line(kind, index + 1, source_of(name)[index])


@cache
def picture_of(name: str) -> AccessPicture | None:
    """The access picture; None for a kernel that was not traced (see tools/kernels/pictures.py)."""
    file = STATIC_DIR / "kernels" / f"{name}.svg"
    if not file.is_file():
        return None
    root = ElementTree.parse(file).getroot()
    width, height = (round(float(root.get(side, "0"))) for side in ("width", "height"))
    return AccessPicture(static(f"kernels/{name}.svg"), width, height, root.findtext(f"{SVG}desc", ""))
