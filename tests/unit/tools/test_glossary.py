"""Public names use the words of docs/glossary.md, and none of those it has retired."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.benchmarks.spec import BenchmarkSpec
from jobs.settings import Settings
from kernels.catalog import CATALOG
from kernels.model.kernel import CudaKernel

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("analysis", "benchmarks", "client", "jobs", "kernels", "service", "tools", "worker")
_RETIRED = re.compile(r"^- (\w+): ", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_]\w*")
_PROSE = re.compile(r"--[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ALLOWED = {"HeatCell", "heatmap", "heatmaps", "most_common"}  # the field's own


def retired() -> frozenset[str]:
    section = (ROOT / "docs" / "glossary.md").read_text("utf-8").partition("## Retired")[2]
    return frozenset(_RETIRED.findall(section))


def words(name: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(name)}


def public_names(path: Path) -> Iterator[str]:
    """Of a module: its own, its classes and functions, their parameters, fields and constants."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
            if isinstance(node, ast.ClassDef):
                fields = (one.target for one in node.body if isinstance(one, ast.AnnAssign))
                yield from (target.id for target in fields if isinstance(target, ast.Name))
            else:
                yield from (argument.arg for argument in (*node.args.args, *node.args.kwonlyargs))
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name) and target.id.isupper())


def lua_names(path: Path) -> set[str]:
    """All names in a script, without its comments and strings."""
    return set(_NAME.findall(_PROSE.sub("", path.read_text("utf-8"))))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_public_name_has_a_retired_word(package: str) -> None:
    gone = retired()
    assert len(gone) > 10
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in public_names(path)
        if not name.startswith("_") and name not in ALLOWED and words(name) & gone
    ]
    assert not found, "\n".join(found)


def test_parameters_settings_and_fields_of_the_api_have_none() -> None:
    gone = retired()
    kernels = [p.name for kernel in CATALOG if isinstance(kernel, CudaKernel) for p in kernel.parameters]
    schema = BenchmarkSpec.model_json_schema()
    fields = [name for part in (schema, *schema["$defs"].values()) for name in part.get("properties", ())]
    assert not [name for name in (*kernels, *Settings.model_fields, *fields) if words(name) & gone]


def test_names_in_scripts_of_redis_have_none() -> None:
    gone, scripts = retired(), sorted((ROOT / "jobs").rglob("*.lua"))
    assert len(scripts) > 20
    found = [f"{path.relative_to(ROOT)}: {name}" for path in scripts for name in lua_names(path) if words(name) & gone]
    assert not found, "\n".join(found)


def test_sources_of_kernels_are_named_so() -> None:
    gone = retired()
    paths = [path for pattern in ("*.cu", "*.cuh") for path in (ROOT / "kernels" / "cuda").rglob(pattern)]
    assert paths and not [path.name for path in paths if words(path.stem) & gone]
