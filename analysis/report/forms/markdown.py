"""A report in Markdown. Plots are links: to the service that made it, or to files beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from analysis.report.document import Block, Code, Contents, Cover, Figure, Heading, Items, Table, Text, seen

Link = Callable[[str], str]


def to_markdown(blocks: Iterable[Block], link: Link) -> str:
    """`link`: address of a plot by its name."""
    return "\n\n".join(filter(None, (_block(block, link) for block in blocks))) + "\n"


def _block(block: Block, link: Link) -> str:
    match block:
        case Cover():
            rows = "\n".join(f"- {plain(name)}: {plain(value)}" for name, value in block.rows)
            return f"# {plain(block.title)}\n\n{rows}"
        case Contents():
            return ""
        case Heading(level=level, text=text):
            return f"{'#' * level} {plain(text)}"
        case Text(text=text, strong=strong):
            return f"**{plain(text)}**" if strong else plain(text)
        case Items(texts=texts):
            return "\n".join(f"- {plain(text)}" for text in texts)
        case Code(text=text, language=language):
            return _fenced(text, language)
        case Table():
            return _table(block)
        case Figure(name=name, caption=caption):
            return f"![{plain(caption)}]({link(name)})\n\n{plain(caption)}"


def plain(text: str) -> str:
    """Text without markup: characters with a meaning in Markdown or HTML are escaped, also those with one at the
    beginning of a line; lines are joined. The narrow space within a number stays."""
    one_line = re.sub(r"[^\S\u202f]+", " ", seen(text)).strip()
    escaped = re.sub(r"([\\`*_\[\]<>|#&~$])", r"\\\1", one_line)
    not_numbered = re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", escaped)
    return re.sub(r"^(?=[-+=](?:[-=\s]|$))", r"\\", not_numbered)


def _fenced(text: str, language: str) -> str:
    """Code within a fence that is longer than any run of backticks in it."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _table(table: Table) -> str:
    rule = "| --- |" + (" --- |" if table.words else " ---: |") * (len(table.head) - 1)
    rows = ("| " + " | ".join(map(plain, row)) + " |" for row in (table.head, *table.rows))
    head, *body = rows
    note = ("", plain(table.note)) if table.note else ()
    return "\n".join((plain(table.caption) + ":", "", head, rule, *body, *note))
