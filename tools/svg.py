"""Pictures as SVG text: shapes with a class each, in colours for light and for dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape

# class: what it is filled with on a light page, and on a dark one. Blue and orange differ for every kind of sight.
FILLS = {
    "ground": ("#ffffff", "#0d1117"),
    "matrix": ("#f1f3f5", "#1c222b"),
    "block": ("#cfe3f6", "#1c3d5c"),
    "warp": ("#3d8bd4", "#4d9be6"),
    "thread": ("#e8590c", "#ff9146"),
    "waste": ("#dfe3e8", "#39424e"),
}
INKS = {"ink": ("#1f2328", "#e6edf3"), "quiet": ("#59636e", "#9da7b3")}
LINES = {
    "edge": ("#59636e", "#9da7b3"),
    "grid": ("#c8ced6", "#39424e"),
    "sector": ("#8b949e", "#6e7681"),
    "ground-line": FILLS["ground"],
}
FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"


def _rules(which: int) -> str:
    fills = [f".{name}{{fill:{colours[which]}}}" for name, colours in (FILLS | INKS).items()]
    lines = [f".{name}{{fill:none;stroke:{colours[which]}}}" for name, colours in LINES.items()]
    return "".join(fills + lines)


STYLE = f"text{{font-family:{FONT}}}{_rules(0)}@media (prefers-color-scheme:dark){{{_rules(1)}}}"


@dataclass(slots=True)
class Picture:
    """Shapes in the order in which they are drawn, on a ground. Lengths are pixels at full size."""

    width: float
    height: float
    title: str
    description: str
    shapes: list[str] = field(default_factory=list)

    def rectangle(self, kind: str, x: float, y: float, width: float, height: float, *, round: float = 0) -> None:
        corner = f' rx="{number(round)}"' if round else ""
        self.shapes.append(
            f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'
            f"{corner}/>"
        )

    def rectangles(self, kind: str, boxes: Iterable[tuple[float, float, float, float]]) -> None:
        """Rectangles of one kind, each with x, y, width and height, as one shape: where they touch, no edge shows."""
        path = "".join(f"M{number(x)} {number(y)}h{number(w)}v{number(h)}h{number(-w)}z" for x, y, w, h in boxes)
        if path:
            self.shapes.append(f'<path class="{kind}" d="{path}"/>')

    def lines(self, kind: str, ends: Iterable[tuple[float, float, float, float]], *, width: float = 1) -> None:
        """Straight lines, each from x, y to x, y."""
        path = "".join(f"M{number(a)} {number(b)}{_to(a, b, c, d)}" for a, b, c, d in ends)
        self.shapes.append(f'<path class="{kind}" stroke-width="{number(width)}" d="{path}"/>')

    def text(self, x: float, y: float, words: str, *, size: float = 13, kind: str = "ink", **style: str) -> None:
        """`anchor` is start, middle or end; `weight` is bold or none."""
        anchor = f' text-anchor="{style["anchor"]}"' if "anchor" in style else ""
        weight = ' font-weight="600"' if style.get("weight") == "bold" else ""
        self.shapes.append(
            f'<text class="{kind}" x="{number(x)}" y="{number(y)}" font-size="{number(size)}"{anchor}{weight}>'
            f"{escape(words)}</text>"
        )

    def svg(self) -> str:
        size = f'width="{number(self.width)}" height="{number(self.height)}"'
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {number(self.width)} {number(self.height)}" '
            f'role="img" aria-labelledby="title description">\n'
        )
        head += f'<title id="title">{escape(self.title)}</title>\n'
        head += f'<desc id="description">{escape(self.description)}</desc>\n'
        ground = f'<rect class="ground" width="{number(self.width)}" height="{number(self.height)}" rx="8"/>'
        return head + "\n".join((f"<style>{STYLE}</style>", ground, *self.shapes, "</svg>")) + "\n"


def _to(a: float, b: float, c: float, d: float) -> str:
    """The rest of a line's path: most lines are level or upright."""
    return f"H{number(c)}" if b == d else f"V{number(d)}" if a == c else f"L{number(c)} {number(d)}"


def number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
