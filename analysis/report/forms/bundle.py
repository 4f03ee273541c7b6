"""A report as a zip file: Markdown and its pictures."""

from __future__ import annotations

import io
from collections.abc import Mapping
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

BEGINNING = (1980, 1, 1, 0, 0, 0)  # of time in zip files, so that the same report gives the same bytes


def picture(name: str) -> str:
    """Path of a plot's file."""
    return f"images/{name}.svg"


def to_zip(markdown: str, plots: Mapping[str, bytes]) -> bytes:
    """`plots`: SVG by name."""
    held = io.BytesIO()
    with ZipFile(held, "w", ZIP_DEFLATED) as bundle:
        for path, content in (("report.md", markdown.encode()), *((picture(name), svg) for name, svg in plots.items())):
            entry = ZipInfo(path, BEGINNING)
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            bundle.writestr(entry, content)
    return held.getvalue()
