"""What mkdocs calls while it builds the documentation site (`make site`, mkdocs.yml).

Pages are written for readers of the repository: their links lead through its folders. In the site, READMEs and the like
become pages, files that pages lead to (sources, pictures) are copied beside them, and other links become plain text.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# Pages from outside docs/, by their place in the site.
PAGES = {
    "README.md": "index.md",
    "client/README.md": "client.md",
    "docker/README.md": "docker.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
STYLE = Path(__file__).with_name("site.css")
SERIES = {"decisions": "Decisions", "notes": "Notes"}  # folders of docs/ that get a list of their pages
COPIED = "files"
MAX_COPIED_BYTES = 300_000
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)\s]+)\)")
FENCE = re.compile(r"^(```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Pages that mkdocs.yml does not place follow in the navigation, and then those of each series."""
    nav: list[Any] = [*(config.nav or [])]
    placed = re.findall(r"[\w-]+\.md", json.dumps(nav))
    nav += sorted(path.name for path in (ROOT / "docs").glob("*.md") if path.name not in placed)
    for folder, title in SERIES.items():
        pages = [f"{folder}/{path.name}" for path in sorted((ROOT / "docs" / folder).glob("*.md"))]
        nav.append({title: [f"{folder}/index.md", *pages]})
    config.nav = nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """With pages from elsewhere, lists of each series, and what pages lead to."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text("utf-8")))
    files.append(File.generated(config, STYLE.name, content=STYLE.read_bytes()))
    files.append(File.generated(config, "notebook.md", content=_notebook()))
    for folder, title in SERIES.items():
        files.append(File.generated(config, f"{folder}/index.md", content=_list(folder, title)))
    sources = [*PAGES, *(f"docs/{file.src_uri}" for file in files.documentation_pages() if not file.generated_by)]
    for path in sorted({target for source in sources for target in _copied(source)}):
        files.append(File.generated(config, f"{COPIED}/{path}", content=(ROOT / path).read_bytes()))
    return files


def _notebook() -> str:
    """docs/notebook.ipynb as a page: its text and code, without what the code gave."""
    cells = json.loads((ROOT / "docs" / "notebook.ipynb").read_text("utf-8"))["cells"]
    texts = ("".join(cell["source"]) for cell in cells)
    shown = (
        text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```"
        for cell, text in zip(cells, texts, strict=True)
    )
    return "\n\n".join((*shown, "[The notebook itself](notebook.ipynb)")) + "\n"


def _list(folder: str, title: str) -> str:
    lines = [f"# {title}", ""]
    for path in sorted((ROOT / "docs" / folder).glob("*.md")):
        heading = path.read_text("utf-8").partition("\n")[0].lstrip("# ").replace(". ", "\\. ", 1)
        lines.append(f"- [{heading}]({path.name})")
    return "\n".join(lines) + "\n"


def _copied(source: str) -> Iterator[str]:
    """Files outside of docs/ that a page leads to."""
    for link in LINK.finditer((ROOT / source).read_text("utf-8")):
        target = _in_repository(source, link[2].partition("#")[0])
        if target is not None and _site_place(target) == f"{COPIED}/{target}":
            yield target


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links fitted to the site; what stands in code blocks stays."""
    place = page.file.src_uri
    source = next((path for path, at in PAGES.items() if at == place), f"docs/{place}")
    pieces = FENCE.split(markdown)
    return "".join(piece if piece.startswith("```") else fitted(piece, source, place) for piece in pieces)


def fitted(markdown: str, source: str, place: str) -> str:
    """`markdown` of the file `source`, for its `place` in the site."""

    def fit(link: re.Match[str]) -> str:
        words, address = link[1], link[2]
        path, hash_, anchor = address.partition("#")
        target = _in_repository(source, path) if path else None
        if target is None:
            return link[0]  # to another site, or within the page
        at = _site_place(target)
        if at is None:
            return words.lstrip("!").strip("[]")
        return f"{words}({os.path.relpath(at, os.path.dirname(place) or '.')}{hash_}{anchor})"

    return LINK.sub(fit, markdown)


def _in_repository(source: str, address: str) -> str | None:
    """The file or folder that a link of `source` names, from the root; None for what is no path in here."""
    if not address or re.match(r"[a-z]+:|/", address):
        return None
    target = os.path.normpath(os.path.join(os.path.dirname(source), address))
    return target if (ROOT / target).exists() else None


def _site_place(target: str) -> str | None:
    """The place of a repository's file in the site; None if it has none."""
    if target in PAGES:
        return PAGES[target]
    folder, _, inside = target.partition("/")
    if folder == "docs" and inside:
        return f"{inside}/index.md" if inside in SERIES else inside
    path = ROOT / target
    return f"{COPIED}/{target}" if path.is_file() and path.stat().st_size <= MAX_COPIED_BYTES else None
