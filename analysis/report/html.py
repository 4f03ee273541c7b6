"""A report as one HTML file: no script, nothing to fetch, plots within it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from html import escape

from analysis.report.document import Block, Code, Figure, Heading, Items, Table, Text

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; color: #222; background: #fff;
  max-width: 58rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.25rem; margin-top: 2.2rem; border-bottom: 1px solid #ddd; padding-bottom: .2rem; }
h3 { font-size: 1.05rem; margin-top: 1.6rem; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: #555; padding-bottom: .3rem; }
th, td { padding: .22rem .6rem; border-bottom: 1px solid #e6e6e6; text-align: right; white-space: nowrap; }
th:first-child, td:first-child, table.words td, table.words th { text-align: left; }
table.words td { white-space: normal; }
thead th { border-bottom: 2px solid #bbb; }
tbody th { font-weight: 500; }
figure { margin: 1.2rem 0; }
figure svg { width: 100%; height: auto; max-width: 46rem; }
figcaption { color: #555; font-size: .85rem; }
pre { background: #f5f5f5; padding: .8rem; overflow-x: auto; font-size: .8rem; white-space: pre-wrap;
  overflow-wrap: anywhere; }
@media print { body { max-width: none; } h2, h3 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""


def to_html(title: str, blocks: Iterable[Block], plots: Mapping[str, bytes]) -> str:
    """`plots`: SVG by name; a figure without its plot is left out."""
    body = "\n".join(filter(None, (_block(block, plots) for block in blocks)))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _block(block: Block, plots: Mapping[str, bytes]) -> str:
    match block:
        case Heading(level=level, text=text):
            return f"<h{level}>{escape(text)}</h{level}>"
        case Text(text=text, strong=strong):
            return f"<p><strong>{escape(text)}</strong></p>" if strong else f"<p>{escape(text)}</p>"
        case Items(texts=texts):
            return "<ul>\n" + "\n".join(f"<li>{escape(text)}</li>" for text in texts) + "\n</ul>"
        case Code(text=text):
            return f"<pre><code>{escape(text)}</code></pre>"
        case Table():
            return _table(block)
        case Figure(name=name):
            return _figure(block, plots[name]) if name in plots else ""


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.head)
    rows = "\n".join(_row(row) for row in table.rows)
    kind = ' class="words"' if table.words else ""
    return (
        f'<div class="table" tabindex="0" role="region" aria-label="{escape(table.caption)}"><table{kind}>\n'
        f"<caption>{escape(table.caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n"
        "</table></div>"
    )


def _row(cells: tuple[str, ...]) -> str:
    name, *values = cells
    return f'<tr><th scope="row">{escape(name)}</th>' + "".join(f"<td>{escape(cell)}</td>" for cell in values) + "</tr>"


def _figure(figure: Figure, svg: bytes) -> str:
    return f"<figure>\n{inline_svg(svg, figure)}\n<figcaption>{escape(figure.caption)}</figcaption>\n</figure>"


def inline_svg(svg: bytes, figure: Figure) -> str:
    """Without its prologue and its style for everything around it, with ids that no other plot of the page has, and
    with words for those who do not see it."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = text.replace('<style type="text/css">*{', f'<style type="text/css">#plot-{figure.name} *{{')
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{figure.name}-", text)
    start = f'<svg id="plot-{figure.name}" role="img" aria-label="{escape(figure.caption)}" '
    return text.replace("<svg ", start, 1).strip()
