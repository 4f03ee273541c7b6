"""Removes from lock files the hashes of wheels for platforms that the project does not name.

    python -m tools.lock_hashes constraints/*.txt

uv lists a hash for each file of a locked version. Most are wheels for systems on which nobody runs this project, and
they made `constraints/` three times as large. What remains: CPython with the global interpreter lock, on Linux (glibc;
x86-64 and Arm), macOS and Windows (x86-64), and each source distribution, from which other systems can build.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

_UV = Path(sysconfig.get_path("scripts")) / "uv"
_INTERPRETER = re.compile(r"(py|cp)3\d*")
_PLATFORM = re.compile(r"any|(many)?linux.*_(x86_64|aarch64)|macosx_.*|win_amd64")
_HASH_LINE = re.compile(r"\s*--hash=sha256:([0-9a-f]{64})")


def is_supported(tag: Tag) -> bool:
    """Whether wheels with this tag are for a platform that the project names."""
    is_free_threaded = tag.abi.endswith("t")
    runs = _INTERPRETER.fullmatch(tag.interpreter) and _PLATFORM.fullmatch(tag.platform)
    return bool(runs) and not is_free_threaded


def supported(pylock: dict[str, Any]) -> set[str]:
    """SHA-256 of source distributions, and of wheels for named platforms. `pylock` is a parsed `pylock.toml`."""
    packages = pylock["packages"]
    wheels = (wheel for package in packages for wheel in package.get("wheels", []) if _is_supported(wheel))
    sources = (package["sdist"] for package in packages if "sdist" in package)
    return {file["hashes"]["sha256"] for file in chain(wheels, sources)}


def only(requirements: str, hashes: set[str]) -> str:
    """The text of a lock file with these hashes alone. A requirement keeps all of its own where none would remain."""
    return "".join(_only(one, hashes) for one in re.split(r"^(?=\S)", requirements, flags=re.MULTILINE) if one)


def _only(requirement: str, hashes: set[str]) -> str:
    first, *rest = requirement.removesuffix("\n").split(" \\\n")
    kept = [line for line in rest if (found := _HASH_LINE.fullmatch(line)) and found[1] in hashes]
    return " \\\n".join([first, *kept]) + "\n" if kept else requirement


def _is_supported(wheel: dict[str, Any]) -> bool:
    return any(map(is_supported, parse_wheel_filename(_file_name(wheel))[3]))


def _file_name(wheel: dict[str, Any]) -> str:
    return str(wheel.get("name") or unquote(urlsplit(wheel["url"]).path).rpartition("/")[2])


def _files_of(locks: list[Path]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each lock file with what the package index says of the files of its versions."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "pylock.toml"
        for lock in locks:
            options = ("--universal", "--no-deps", "--python-version", "3.11", "--format", "pylock.toml")
            subprocess.run([_UV, "pip", "compile", "--quiet", *options, lock, "--output-file", out], check=True)
            yield lock, tomllib.loads(out.read_text())
            out.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.lock_hashes", description=__doc__)
    parser.add_argument("locks", nargs="+", type=Path, metavar="FILE", help="requirements with hashes, rewritten")
    for lock, pylock in _files_of(parser.parse_args().locks):
        text = lock.read_text()
        lock.write_text(only(text, supported(pylock)))
        print(f"{lock}: {len(text):,} bytes before, {lock.stat().st_size:,} now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
