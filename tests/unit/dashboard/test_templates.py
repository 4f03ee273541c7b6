"""What holds for every page's template."""

from __future__ import annotations

import re
from pathlib import Path

import service.dashboard

TEMPLATES = Path(service.dashboard.__file__).parent / "templates"
STOP = re.compile(r'<(?:div|figure|section|pre)\b[^>]*tabindex="0"[^>]*>')


def test_where_the_keyboard_stops_to_scroll_has_a_name() -> None:
    """A screen reader says nothing else of such a place."""
    stops = [(path.name, stop) for path in TEMPLATES.glob("*.html") for stop in STOP.findall(path.read_text())]
    assert len(stops) > 20
    nameless = [stop for stop in stops if not re.search(r'role="[^"]+"[^>]* aria-label(?:ledby)?="[^"]', stop[1])]
    assert nameless == []
