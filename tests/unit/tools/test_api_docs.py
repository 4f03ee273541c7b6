"""The API guide names no path that does not exist, and leaves none out."""

from __future__ import annotations

import re
from pathlib import Path

from jobs.settings import Settings
from service.app import create_app

ROOT = Path(__file__).resolve().parents[3]
PATHS = {re.sub(r"{\w+}", "{}", path) for path in create_app(Settings()).openapi()["paths"]}
ADDRESS = re.compile(r"(?<!\w)/(?:v1/[\w/{}-]*|livez|readyz|metrics)")


def named_in(page: str) -> set[str]:
    text = (ROOT / page).read_text()
    return {re.sub(r"{\w+}", "{}", path).rstrip("/") for path in ADDRESS.findall(text)}


def test_paths_in_the_guide_exist() -> None:
    pages = ["README.md", "docs/api.md", "docs/operations.md", "docs/architecture.md"]
    assert set.union(*map(named_in, pages)) - PATHS == set()


def test_every_path_is_in_the_guide() -> None:
    assert PATHS - (named_in("docs/api.md") | named_in("docs/operations.md")) == set()
