"""The API guide names no path that does not exist, and leaves none out."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

from jobs.settings import Settings
from service.app import create_app

ROOT = Path(__file__).resolve().parents[3]
ADDRESS = re.compile(r"(?<!\w)/(?:v1/[\w/{}-]*|livez|readyz|metrics)")


@pytest.fixture(scope="module")
def paths() -> set[str]:
    return {re.sub(r"{\w+}", "{}", path) for path in create_app(Settings()).openapi()["paths"]}


def named_in(page: str) -> set[str]:
    text = (ROOT / page).read_text()
    return {re.sub(r"{\w+}", "{}", path).rstrip("/") for path in ADDRESS.findall(text)}


def test_paths_in_the_guide_exist(paths: set[str]) -> None:
    pages = ["README.md", "docs/api.md", "docs/operations.md", "docs/architecture.md"]
    assert set.union(*map(named_in, pages)) - paths == set()


def test_examples_import_only_what_is_installed_beside_the_service() -> None:
    locks = [(ROOT / "constraints" / name).read_text() for name in ("run.txt", "client.txt")]
    there = {"matmul_client", *sys.stdlib_module_names, *re.findall(r"^([\w-]+)==", "\n".join(locks), re.M)}
    text = "".join((ROOT / page).read_text() for page in ("README.md", "docs/api.md"))
    trees = [ast.parse(block) for block in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)]
    found = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in found if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module).partition(".")[0] for node in found if isinstance(node, ast.ImportFrom)}
    assert "numpy" in names and names - there == set()


def test_every_path_is_in_the_guide(paths: set[str]) -> None:
    assert paths - (named_in("docs/api.md") | named_in("docs/operations.md")) == set()
