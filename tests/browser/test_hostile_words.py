"""Words that others chose, such as titles, tags, and what a file of results says of its device, are text on every page:
no markup, no wider page, and no direction for what stands after them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.test_looks import BENCHMARK, drawn, finished
from tools.browser import Tab

MARKUP = """'"></script></textarea></title><img src=x onerror="owned=1"><svg/onload=owned=1>{{7777*7777}}${7777*7777}"""
RIGHT_TO_LEFT = "\u202egnihtyna"
UNBROKEN = "W" * 300
EVIL = f"{MARKUP}{RIGHT_TO_LEFT} \u05d0\u05d1\u05d2 {UNBROKEN}"
PAGES = (
    "/",
    "/ui/jobs",
    "/ui/jobs?q=W&kind=benchmark",
    "/ui/jobs/{evil}",
    "/ui/benchmarks/{evil}",
    "/ui/benchmarks/{evil}/report",
    "/ui/benchmarks/new?clone={evil}",
    "/ui/compare?before={evil}&after={own}",
    "/ui/pinned",
    "/ui/leaderboard?dtype=float32&accuracy=fp32",
    "/v1/benchmarks/{evil}/report?format=html&title={words}&author={unbroken}&text={words}",
)
# Blocks in which text follows such words and would be turned round with them.
TURNED = """() => {
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
  while (words.nextNode()) {
    const own = words.currentNode;
    let block = own.parentElement;
    if (!own.data.includes('\\u202e') || !block.checkVisibility()) continue;
    const runsOn = style => style.display === 'inline' && style.unicodeBidi === 'normal';
    while (runsOn(getComputedStyle(block))) block = block.parentElement;
    const after = document.createRange();
    after.selectNodeContents(block);
    after.setStartAfter(own);
    if (after.toString().trim()) found.push(block.outerHTML.slice(0, 200));
  }
  return found;
}"""


def hostile(file: dict[str, Any]) -> dict[str, Any]:
    """The file with such words wherever a file may have its own."""
    file["spec"] |= {"title": EVIL[:200], "tags": [EVIL[:50], UNBROKEN[:50], RIGHT_TO_LEFT]}
    file["summary"]["warnings"] = [EVIL, EVIL]
    for attempt in file["attempts"]:
        attempt |= {"worker": EVIL, "environment": {EVIL: EVIL, "versions": {EVIL: EVIL}}}
        attempt["device"] |= {"name": EVIL}
    file["records"][0] |= {"reason": EVIL}
    return file


@pytest.mark.parametrize("width", [380, 1280])
def test_words_of_others_are_text(tab: Tab, http: httpx.Client, width: int) -> None:
    own = finished(http, BENCHMARK)
    file = hostile(http.get(f"/v1/benchmarks/{own}/export").json())
    imported = http.post("/v1/benchmarks/import", json=file)
    assert imported.status_code == 201, imported.text
    known = {"own": own, "evil": imported.json()["id"], "words": quote(EVIL[:200]), "unbroken": UNBROKEN[:200]}
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.add_init_script("sessionStorage.setItem('paused', 'yes')")
    for address in PAGES:
        tab.open(address.format(**known))
        drawn(tab.page)
        assert tab.page.evaluate("typeof owned") == "undefined", address
        assert tab.page.locator("img[src=x], svg[onload]").count() == 0, address
        assert tab.overflow() == 0, address
        assert tab.page.evaluate(TURNED) == [], address
        assert str(7777 * 7777) not in tab.page.title(), address
    tab.open(f"/ui/jobs/{known['evil']}")
    expect(tab.page.locator("body")).to_contain_text("onerror")
    http.delete(f"/v1/jobs/{known['evil']}").raise_for_status()
