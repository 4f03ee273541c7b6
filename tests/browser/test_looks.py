"""Pages as everybody can read them: on a narrow screen, in light and dark, by axe-core's rules."""

from __future__ import annotations

from typing import Literal

import httpx
import pytest

from tests.browser.test_live import submit
from tests.support.browser import Tab

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture
def paths(http: httpx.Client) -> tuple[str, ...]:
    """The overview, the list, and a finished job's page."""
    job_id = submit(http)
    http.get(f"/v1/jobs/{job_id}", headers={"prefer": "wait=10"}).raise_for_status()
    return "/", "/ui/jobs", f"/ui/jobs/{job_id}"


def test_no_page_is_wider_than_a_narrow_screen(tab: Tab, paths: tuple[str, ...]) -> None:
    tab.page.set_viewport_size({"width": 380, "height": 800})
    for path in paths:
        tab.open(path)
        assert tab.overflow() == 0, path


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_has_nothing_against_them(tab: Tab, paths: tuple[str, ...], scheme: Literal["light", "dark"]) -> None:
    tab.page.emulate_media(color_scheme=scheme)
    for path in paths:
        tab.open(path)
        assert tab.violations() == [], path
