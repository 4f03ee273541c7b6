"""House rules that no linter knows: sizes, words that do not belong here, locked requirements, docs true to code."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tools.docs.generate import regenerated

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (
    ".ci",
    "analysis",
    "benchmarks",
    "client",
    "constraints",
    "docker",
    "docs",
    "jobs",
    "kernels",
    "service",
    "tests",
    "tools",
    "worker",
)
TEXT = {"", ".py", ".md", ".txt", ".toml", ".yaml", ".yml", ".cu", ".cuh", ".lua", ".sh", ".Dockerfile", ".conf"}
MAX_PYTHON_LINES, MAX_CUDA_LINES, MAX_FUNCTION_LINES = 300, 230, 50
MAX_MODULES = 18  # in one folder, its __init__.py among them
MAX_RECORD_BYTES, MAX_RECORDS_BYTES, MAX_TREE_BYTES = 1_100_000, 8_000_000, 14 << 20
MAX_PLAIN_RECORD_BYTES = 20_000  # larger ones are compressed
# Written in pieces, so that this file does not hold them.
FORBIDDEN = (
    r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b",
    "NotImplemented" + "Error",
    r"pytest\.mark\.skip" + r"\(",
    r"(extra-)?index" + r"-url\b[ =]",
    r"pypi\." + r"org|pythonhosted\." + "org",
    r"/ro" + r"ot/|/wo" + r"rk/",
)


@cache
def files(*suffixes: str) -> tuple[Path, ...]:
    return tuple(path for path in all_files() if path.suffix in suffixes)


@cache
def all_files() -> tuple[Path, ...]:
    in_folders = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))
    at_top = (path for path in ROOT.glob("*") if path.name != ".git")  # a file in a worktree
    return tuple(path for path in (*in_folders, *at_top) if "__pycache__" not in path.parts and path.is_file())


def functions(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """All in it, also those inside others. Expressions, which hold none, are not looked into."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from functions(child)


def locked(name: str) -> dict[str, set[str]]:
    """Versions by package in a constraints file; several where they depend on the platform."""
    versions: dict[str, set[str]] = {}
    for package, version in re.findall(
        r"^([\w.-]+)==([^ ;\\]+)", (ROOT / "constraints" / name).read_text(), re.MULTILINE
    ):
        versions.setdefault(package, set()).add(version)
    return versions


def names_of(requirements: list[str | dict[str, str]]) -> set[str]:
    """Package names as the constraints files spell them; groups that are included say their own."""
    return {re.split(r"[^\w.-]", line)[0].lower() for line in requirements if isinstance(line, str)}


def test_no_file_is_too_long() -> None:
    limits = {".py": MAX_PYTHON_LINES, ".cu": MAX_CUDA_LINES, ".cuh": MAX_CUDA_LINES}
    too_long = [
        (str(path.relative_to(ROOT)), lines)
        for path in files(*limits)
        if (lines := len(path.read_text().splitlines())) > limits[path.suffix]
    ]
    assert not too_long


def test_no_folder_has_too_many_modules() -> None:
    modules = Counter(path.parent for path in files(".py"))
    assert not {str(folder.relative_to(ROOT)): count for folder, count in modules.items() if count > MAX_MODULES}


def test_records_and_tree_stay_small() -> None:
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("not a checkout")
    sizes = {name: (ROOT / name).stat().st_size for name in tracked.stdout.split("\0") if (ROOT / name).is_file()}
    records = {name: size for name, size in sizes.items() if name.startswith("benchmarks/results/")}
    assert {name: size for name, size in records.items() if size > MAX_RECORD_BYTES} == {}
    plain = {name: size for name, size in records.items() if not name.endswith(".gz")}
    assert {name: size for name, size in plain.items() if size > MAX_PLAIN_RECORD_BYTES} == {}
    assert sum(records.values()) <= MAX_RECORDS_BYTES and sum(sizes.values()) <= MAX_TREE_BYTES


def test_no_function_is_too_long() -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in files(".py")
        for node in functions(ast.parse(path.read_text()))
        if (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES
    ]
    assert not too_long


@pytest.mark.parametrize("pattern", FORBIDDEN)
def test_words_that_do_not_belong_here(pattern: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files(*sorted(TEXT))
        if re.search(pattern, text := path.read_text())
        for number, line in enumerate(text.splitlines(), 1)
        if re.search(pattern, line)
    ]
    assert not found


@pytest.mark.parametrize("name", ["run.txt", "dev.txt", "fuzz.txt", "cuda12.txt", "cuda13.txt", "client.txt"])
def test_constraints_are_hashed_and_name_no_index(name: str) -> None:
    text = (ROOT / "constraints" / name).read_text()
    requirements = re.split(r"\n(?=\S)", text.strip())
    assert all(re.match(r"[\w.-]+==\S+", line) and "--hash=sha256:" in line for line in requirements)
    assert "://" not in text
    assert set(re.findall(r"--[a-z-]+", text)) == {"--hash"}


@pytest.mark.parametrize("name", ["cuda12.txt", "cuda13.txt", "dev.txt"])
def test_constraints_agree(name: str) -> None:
    """Tests run on the versions that are shipped, and each environment holds all that running needs."""
    run, other = locked("run.txt"), locked(name)
    assert {package: other.get(package) for package in run} == run


def test_the_client_is_tested_on_what_is_locked_for_it() -> None:
    client, dev = locked("client.txt"), locked("dev.txt")
    assert {package: dev.get(package, versions) for package, versions in client.items()} == client


def test_declared_dependencies_are_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = project["project"]["dependencies"] + project["project"]["optional-dependencies"]["embedded"]
    assert names_of(declared) <= locked("run.txt").keys()
    assert names_of(project["dependency-groups"]["dev"]) <= locked("dev.txt").keys()
    client = tomllib.loads((ROOT / "client" / "pyproject.toml").read_text())["project"]
    assert names_of(client["dependencies"]) <= locked("client.txt").keys()


def test_changelog_knows_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_make_target_says_what_it_is_for() -> None:
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)", makefile, re.MULTILINE)
    assert phony is not None
    targets = {name for name in phony[1].split() if not name.startswith("env-")}
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  (\S+)", listed, re.MULTILINE)) == targets
    assert max(map(len, listed.splitlines())) <= 120  # an example may be longer than the text, which is broken at 96
    users, maintainers = listed.split("\n\n")
    assert "\n  run " in users and "\n  chaos " in maintainers


def test_a_python_that_is_not_there_is_told() -> None:
    done = subprocess.run(["make", "run", "PYTHON=/nonexistent"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode and "Install one" in done.stderr and "not found" not in done.stderr


def test_continuous_integration_runs_what_the_readme_says() -> None:
    readme, script = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    for command in ("make check", "make test"):
        assert f"\n{command}\n" in script
    assert "\nmake test\n" in readme


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=lambda page: page.name)
def test_generated_docs_are_up_to_date(page: Path) -> None:
    assert regenerated(page.read_text()) == page.read_text(), "run `make docs`"


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text())
    assert not [target for target in targets if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")], ids=lambda page: page.name)
def test_files_and_modules_that_a_page_names_are_there(page: Path) -> None:
    """A file may be named without its ending. The changelog tells of files that are gone."""
    text = page.read_text() if page.name != "CHANGELOG.md" else ""
    files = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w/.]+)`", text)
    modules = [name.replace(".", "/") for name in re.findall(r"python3? -m ([\w.]+)", text)]
    own = [name for name in modules if name.partition("/")[0] in FOLDERS]
    endings = ("", ".py", ".cu", ".cuh")
    assert not [name for name in {*files, *own} if not any((ROOT / f"{name}{ending}").exists() for ending in endings)]
