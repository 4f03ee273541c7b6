"""A kernel's source beside that of the rung before it, and the picture of what its threads touch."""

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

AROUND = 3  # lines that stay, shown at both sides of a change
INCLUDE = re.compile(r'^#include "([\w.]+)"', re.MULTILINE)
SVG = "{http://www.w3.org/2000/svg}"
Kind = Literal["same", "removed", "added"]
MARKS: dict[Kind, str] = {"same": " ", "removed": "−", "added": "+"}


@dataclass(frozen=True, slots=True)
class Line:
    """One of either source. Its number is that in its own file; a line that stays has the later file's."""

    kind: Kind
    number: int
    text: Markup

    @property
    def mark(self) -> str:
        return MARKS[self.kind]


@dataclass(frozen=True, slots=True)
class Changes:
    """From one source to another, in places that stand apart."""

    before: str  # the kernel that it is held against
    places: tuple[tuple[Line, ...], ...]

    def count(self, kind: Kind) -> int:
        return sum(line.kind == kind for place in self.places for line in place)


@dataclass(frozen=True, slots=True)
class AccessPicture:
    """A file of the package: its address, its size in pixels, and what it shows in words."""

    address: str
    width: int
    height: int
    description: str


@cache
def source_of(name: str) -> tuple[Markup, ...]:
    """A kernel's lines, highlighted; none of a library's."""
    return highlighted("\n".join(_text(name)))


@cache
def headers_of(name: str) -> dict[str, tuple[Markup, ...]]:
    """The files that a source includes, in the order in which a reader meets them; their lines, highlighted."""
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
    """Against the rung before it; None beside the ladder, and of its first rung."""
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
    """None of a kernel that was not traced; see tools/kernels/pictures.py."""
    file = STATIC_DIR / "kernels" / f"{name}.svg"
    if not file.is_file():
        return None
    root = ElementTree.parse(file).getroot()
    width, height = (round(float(root.get(side, "0"))) for side in ("width", "height"))
    return AccessPicture(static(f"kernels/{name}.svg"), width, height, root.findtext(f"{SVG}desc", ""))
