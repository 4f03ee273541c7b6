"""The documentation site: it builds without a network, strictly, and loads nothing from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.docs.site import fitted

ROOT = Path(__file__).resolve().parents[3]
NO_NETWORK = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "NO_MKDOCS_2_WARNING": "1"}
LOADED = re.compile(r'<(?:script|link|img|source|iframe)\b[^>]*?(?:src|href)="(?:https?:)?//[^"]*"')


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    done = build("mkdocs.yml", directory)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory


def build(config: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """As `make site` does."""
    recipe = re.search(r"-m (mkdocs build[^#\n]*)", (ROOT / "Makefile").read_text())
    assert recipe is not None
    command = [sys.executable, "-m", *recipe[1].split(), "--config-file", str(config), "--site-dir", str(directory)]
    return subprocess.run(command, cwd=ROOT, env=os.environ | NO_NETWORK, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("[here](#first)", False), ("[x](nowhere.md)", True), ("[x](index.md#nowhere)", True), ("![x](x.png)", True)],
)
def test_a_link_that_leads_nowhere_ends_the_build(tmp_path: Path, text: str, wrong: bool) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# First\n\n{text}\n")
    alone = {"INHERIT": str(ROOT / "mkdocs.yml"), "docs_dir": "docs", "hooks": [], "nav": ["index.md"]}
    (tmp_path / "mkdocs.yml").write_text(json.dumps({**alone, "plugins": [], "theme": {"name": "mkdocs"}}))
    assert (build(tmp_path / "mkdocs.yml", tmp_path / "out").returncode != 0) == wrong


def test_every_page_of_the_repository_is_in_it(site: Path) -> None:
    pages = [path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")]
    for page in [*pages, *map(Path, (".", "client", "docker", "contributing", "changelog", "security"))]:
        assert (site / page / "index.html").is_file(), page


def test_it_loads_nothing_from_elsewhere_and_names_no_machine(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not LOADED.findall(text), page
        assert "fonts.g" not in text and str(ROOT) not in text, page


def test_search_finds_words_of_its_pages(site: Path) -> None:
    found = json.loads((site / "search" / "search_index.json").read_text("utf-8"))["docs"]
    for words in ("Freivalds", "MATMUL_SITE_DIR", "hopper_bf16"):
        assert any(words in entry["text"] or words in entry["title"] for entry in found), words


def test_links_that_leave_docs_lead_into_the_site_or_are_text() -> None:
    assert fitted("[a](../README.md#b) [c](api.md)", "docs/guide.md", "guide.md") == "[a](index.md#b) [c](api.md)"
    assert fitted("![p](docs/images/kernel.png)", "README.md", "index.md") == "![p](images/kernel.png)"
    source = "../../kernels/cuda/ladder/naive.cu"
    at = "../files/kernels/cuda/ladder/naive.cu"
    assert fitted(f"[`n`]({source})", "docs/notes/auto.md", "notes/auto.md") == f"[`n`]({at})"
    assert fitted("[decisions](docs/decisions)", "README.md", "index.md") == "[decisions](decisions/index.md)"
    assert fitted("[the tests](../tests)", "docs/api.md", "api.md") == "the tests"
    elsewhere = "[x](https://example.org/y) [z](#here) [gone](nowhere.md)"
    assert fitted(elsewhere, "docs/api.md", "api.md") == elsewhere
