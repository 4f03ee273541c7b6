"""The pages' scripts: small, and of types that hold."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from service.dashboard.render import STATIC_DIR
from tools.check_scripts import COMPILER, MISSING, ROOT

MAX_BYTES = 100_000  # of all scripts together, compressed


def check(path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the check with those programs to find, as on CI only where `environment` says so."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PATH")}
    command = [sys.executable, "-m", "tools.check_scripts"]
    return subprocess.run(
        command, cwd=ROOT, env=kept | {"PATH": path} | environment, capture_output=True, text=True, check=False
    )


def test_all_scripts_are_small() -> None:
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in STATIC_DIR.rglob("*.js")}
    assert len(sizes) > 1
    assert sum(sizes.values()) < MAX_BYTES, sizes


def test_without_a_compiler_it_says_that_nothing_was_checked(tmp_path: Path) -> None:
    told = check(str(tmp_path))
    assert (told.returncode, told.stderr) == (0, f"{MISSING}\n")


def test_on_ci_a_missing_compiler_is_a_failure(tmp_path: Path) -> None:
    assert check(str(tmp_path), CI="1").returncode == 1


@pytest.mark.parametrize("status", [0, 2])
def test_what_the_compiler_finds_decides(tmp_path: Path, status: int) -> None:
    compiler = tmp_path / COMPILER
    compiler.write_text(f'#!/bin/sh\necho asked "$@"\nexit {status}\n')
    compiler.chmod(0o755)
    told = check(str(tmp_path), CI="1")
    assert told.returncode == status
    assert f"asked --project {ROOT / 'tsconfig.json'}" in told.stdout


@pytest.mark.skipif(shutil.which(COMPILER) is None and "CI" not in os.environ, reason=f"{COMPILER} is not installed")
def test_a_wrong_type_is_found(tmp_path: Path) -> None:
    """By the same options."""
    wrong = tmp_path / "wrong.js"
    wrong.write_text('/** @param {number} n */\nfunction half(n) {\n  return n / 2;\n}\nexport const h = half("2");\n')
    options = f'{{"extends": "{ROOT / "tsconfig.json"}", "include": ["{wrong}"]}}'
    (tmp_path / "tsconfig.json").write_text(options)
    told = subprocess.run([COMPILER, "--project", tmp_path], capture_output=True, text=True, check=False)
    assert told.returncode != 0
    assert "wrong.js(5," in told.stdout
