"""A report as one HTML file without scripts, with its plots inside; it fetches nothing and prints well on A4."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from analysis.report.document import Block, Code, Contents, Cover, Figure, Heading, Items, Table, Text
from analysis.report.forms.lines import escape, is_long, to_lines

SHORT_ROWS = 24  # of a table that is kept on one page
_RULES = re.compile(r'(?<=<style type="text/css">).*?(?=</style>)', re.DOTALL)
_RULE = re.compile(r"^(?=[.*])", re.MULTILINE)


@cache
def style() -> str:
    return (Path(__file__).parent / "style.css").read_text("utf-8")


def to_html(
    title: str, author: str, blocks: Iterable[Block], plots: Mapping[str, bytes], *, is_paper: bool = False
) -> str:
    """`plots`: SVG by name; a figure without a plot is left out. `is_paper`: long tables and plots in the forms that
    WeasyPrint draws in less time."""
    body = "\n".join(filter(None, (_block(block, plots, is_paper) for block in blocks)))
    named = f'<meta name="author" content="{escape(author)}">\n' if author else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n{named}'
        f"<title>{escape(title)}</title>\n<style>\n{style()}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _block(block: Block, plots: Mapping[str, bytes], is_paper: bool) -> str:
    match block:
        case Cover():
            return _cover(block)
        case Contents(texts=texts):
            links = "\n".join(f'<li><a href="#{anchor(text)}">{escape(text)}</a></li>' for text in texts)
            return f'<nav aria-label="Contents">\n<h2>Contents</h2>\n<ol>\n{links}\n</ol>\n</nav>'
        case Heading(level=2, text=text):
            return f'<h2 id="{anchor(text)}">{escape(text)}</h2>'
        case Heading(level=level, text=text):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Text(text=text, strong=strong):
            return f"<p><strong>{escape(text)}</strong></p>" if strong else f"<p>{escape(text)}</p>"
        case Items(texts=texts):
            return "<ul>\n" + "\n".join(f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>" if texts else ""
        case Code(text=text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Table():
            return to_lines(block) if is_paper and is_long(block) else _table(block)
        case Figure(name=name):
            return _figure(block, plots[name], is_paper) if name in plots else ""


def anchor(heading: str) -> str:
    """The anchor of a heading of level 2, which occurs once in a report."""
    return "section-" + re.sub(r"[^a-z]+", "-", heading.lower())


def _cover(cover: Cover) -> str:
    rows = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in cover.rows)
    return f"<header>\n<h1>{escape(cover.title)}</h1>\n<dl>\n{rows}\n</dl>\n</header>"


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    rows = "\n".join(_row(row) for row in table.rows)
    kind = ' class="words"' if table.words else ""
    short = " short" if len(table.rows) <= (SHORT_ROWS // 2 if table.words else SHORT_ROWS) else ""
    note = f'\n<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="table{short}" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table{kind}>\n'
        f"<caption>{escape(table.caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n"
        f"</table>{note}</div>"
    )


def _row(cells: tuple[str, ...]) -> str:
    name, *values = cells
    return f'<tr><th scope="row">{escape(name)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in values) + "</tr>"


def _figure(figure: Figure, svg: bytes, is_paper: bool) -> str:
    drawn = _image(svg, figure) if is_paper else inline_svg(svg, figure)
    return f"<figure>\n{drawn}\n<figcaption>{escape(figure.caption)}</figcaption>\n</figure>"


def _image(svg: bytes, figure: Figure) -> str:
    """The plot as an image, whose thousands of elements are no part of the page and match none of its style's rules."""
    return f'<img alt="{escape(figure.caption)}" src="data:image/svg+xml;base64,{b64encode(svg).decode()}">'


def inline_svg(svg: bytes, figure: Figure) -> str:
    """The SVG without its prologue, with styles for nothing around it, with ids that no other plot of the page has, and
    with a description for those who do not see it."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = _RULES.sub(lambda rules: _RULE.sub(f"#plot-{figure.name} ", rules[0]), text)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{figure.name}-", text)
    start = f'<svg id="plot-{figure.name}" role="img" aria-label="{escape(figure.caption)}" '
    return text.replace("<svg ", start, 1).strip()
