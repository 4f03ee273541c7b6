"""docs/notebook.ipynb, cell by cell, as a notebook's kernel runs it."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest

from tests.unit.tools.test_house import ROOT
from tools.stack import Stack

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"


def cells() -> list[str]:
    document = json.loads(NOTEBOOK.read_text())
    assert document["nbformat"] == 4 and not any(cell.get("outputs") for cell in document["cells"])
    return ["".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"]


def run(source: str, names: dict[str, Any]) -> Any:
    """The value of the cell's last line, if it is an expression."""
    tree = ast.parse(source)
    last = tree.body[-1]
    if not isinstance(last, ast.Expr):
        exec(compile(tree, NOTEBOOK.name, "exec"), names)
        return None
    exec(compile(ast.Module(tree.body[:-1], []), NOTEBOOK.name, "exec"), names)
    return eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), names)


def test_the_notebook_runs(stack: Stack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("MATMUL_URL", stack.url)
    names: dict[str, Any] = {}
    shown = [value for source in cells() if (value := run(source, names)) is not None]
    pages = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert any("<table>" in page and "data:image/svg+xml" in page for page in pages)  # the benchmark and its plot
    assert any("/ui/jobs/job_" in page for page in pages)
    assert names["error"] < 1e-3
    assert "cpu_blas" in capsys.readouterr().out
    names["client"].close()
