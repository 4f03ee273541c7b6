"""What the author of a report adds to it: sections, title, name, question, and text."""

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
    """None stands for the default that the results give. Texts are plain; an empty line begins a new paragraph."""

    title: str | None = None
    author: str | None = None
    question: str | None = None
    text: str | None = None  # the introduction
    conclusion: str | None = None  # comes before the conclusions that follow from the figures
    sections: tuple[SectionName, ...] = SECTIONS

    def has(self, section: SectionName) -> bool:
        return section in self.sections


def paragraphs(text: str | None) -> Sequence[str]:
    """The paragraphs of a text: lines are joined, empty lines separate."""
    pieces = (text or "").replace("\r\n", "\n").split("\n\n")
    return [joined for piece in pieces if (joined := " ".join(piece.split()))]
