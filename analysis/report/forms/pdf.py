"""A report as PDF, made by WeasyPrint from its HTML."""

from __future__ import annotations

import io
import logging
from typing import Any

from jobs.errors import ExtraMissing

MISSING = (
    "PDF needs WeasyPrint: install the extra `pdf`, and Pango's library (Debian: libpango-1.0-0, libpangoft2-1.0-0)."
)


def to_pdf(html: str) -> bytes:
    """The same page gives the same bytes. Nothing is fetched: all content is in the page, or in `data:` URLs.

    Raises ExtraMissing without WeasyPrint or the libraries that it loads.
    """
    try:
        from weasyprint import HTML
    except (ImportError, OSError):  # OSError: the package is there, Pango is not
        raise ExtraMissing(MISSING) from None
    logging.getLogger("fontTools").setLevel(logging.WARNING)
    held = io.BytesIO()
    HTML(string=html, url_fetcher=_fetcher()).write_pdf(held)
    return held.getvalue()


def _fetcher() -> Any:
    """Fetches nothing but `data:` URLs."""
    from weasyprint.urls import URLFetcher

    return URLFetcher(allowed_protocols={"data"})
