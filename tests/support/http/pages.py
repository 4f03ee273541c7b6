"""Pages as a test reads them: links, texts, forms, and what must not be there."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import httpx

FORBIDDEN = re.compile(
    r'<script(?! type="module" src="/ui/static/)|<style|\sstyle=|\son\w+=|javascript:', re.IGNORECASE
)


class Page(HTMLParser):
    """What a page holds. Fails on markup that the page's own policy forbids."""

    def __init__(self, reply: httpx.Response, status: int = 200) -> None:
        super().__init__()
        assert reply.status_code == status, reply.text[-2000:]
        assert reply.headers["content-type"].startswith("text/html")
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        self.html = reply.text
        self.links: list[str] = []
        self.images: list[str] = []
        self.forms: list[str] = []
        self.ids: list[str] = []
        self.labelled: set[str] = set()
        self.inputs: set[str] = set()
        self.headings: list[str] = []
        self.feed(self.html)
        without_text = re.sub(r">[^<]*<", "><", self.html)
        assert not FORBIDDEN.search(without_text)
        assert len(set(self.ids)) == len(self.ids), "an id stands twice"
        assert self.headings.count("h1") == 1
        assert self.inputs <= self.labelled, f"no label: {self.inputs - self.labelled}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if given.get("id"):
            self.ids.append(given["id"] or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        if tag == "img":
            assert given.get("alt")
            self.images.append(given["src"] or "")
        if tag == "form":
            self.forms.append(given.get("action") or "")
        if tag == "label":
            self.labelled.add(given.get("for") or "")
        if tag in ("input", "select", "textarea") and given.get("type") not in ("hidden", "submit"):
            self.inputs.add(given.get("id") or "")
        if tag in ("h1", "h2", "h3"):
            self.headings.append(tag)

    @property
    def text(self) -> str:
        """Words alone, with single spaces."""
        return " ".join(unescape(re.sub(r"<[^>]+>", " ", self.html)).split())

    @property
    def alerts(self) -> list[str]:
        return [unescape(found).strip() for found in re.findall(r'role="alert">([^<]*)', self.html)]

    def addresses(self) -> set[str]:
        """Pages and files of this server that it leads to or loads."""
        found = {link.partition("#")[0] for link in (*self.links, *self.images)}
        assert not any("//" in link for link in found), "something from elsewhere"
        return {link for link in found if link}


def get(client: httpx.Client, path: str, status: int = 200) -> Page:
    return Page(client.get(path), status)


def assert_no_dead_links(client: httpx.Client, page: Page) -> None:
    for address in page.addresses():
        reply = client.get(address)
        assert reply.status_code in (200, 204), f"{address}: {reply.status_code}"
