"""What whoever hands a report in says of it: sections, title, author, question, and text of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

SectionName = Literal[
    "summary",
    "introduction",
    "method",
    "results",
    "roofline",
    "copies",
    "configs",
    "findings",
    "correctness",
    "conclusion",
    "limitations",
    "reproduction",
    "appendix",
]
SECTIONS: tuple[SectionName, ...] = get_args(SectionName)
MAX_LINE, MAX_TEXT = 200, 3000  # characters of a title, name or question, and of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """None: as the results have it. Texts are plain; an empty line begins a new paragraph."""

    title: str | None = None
    author: str | None = None
    question: str | None = None
    text: str | None = None  # the introduction
    conclusion: str | None = None  # what is put before the conclusions that follow from the figures
    sections: tuple[SectionName, ...] = SECTIONS

    def has(self, section: SectionName) -> bool:
        return section in self.sections


def paragraphs(text: str | None) -> Sequence[str]:
    """Of a text: lines joined, empty lines between them."""
    pieces = (text or "").replace("\r\n", "\n").split("\n\n")
    return [joined for piece in pieces if (joined := " ".join(piece.split()))]
