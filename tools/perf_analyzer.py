"""NVIDIA's perf_analyzer: fetches its wheel and, where the system's are too old, newer libraries to run it with.

python -m tools.perf_analyzer -m matmul -u localhost:8000 --shape A:16,16 --shape B:16,16

The wheel needs glibc 2.38. Where Debian's is older, the libraries come from its next release, from wherever apt takes
its packages, and lie beside the program: the system stays as it is.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

VERSION = "2.60.0"
SHA256 = "23ef56b107ae9233e5cf09fbdf508dd9b936a52f1bae2f63f53c8117087b3f25"
PLATFORM = "manylinux_2_38_x86_64"
NEEDED_GLIBC = (2, 38)
SUITE = "trixie"
LIBRARIES = ("libc6", "libgcc-s1", "libssl3t64", "libstdc++6", "libzstd1", "zlib1g")
TIMEOUT_S = 120


class Unavailable(Exception):
    """It cannot be run here; the message says why."""


def command() -> list[str]:
    """What stands before its arguments. What is fetched is kept for the next time. Raises Unavailable."""
    if found := shutil.which("perf_analyzer"):
        return [found]
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise Unavailable("perf_analyzer is for Linux on x86-64")
    place = Path.home() / ".cache" / "matmul-service" / "perf-analyzer"
    place.mkdir(parents=True, exist_ok=True)
    program = _program(place)
    name, version = platform.libc_ver()
    if name == "glibc" and tuple(map(int, version.split("."))) >= NEEDED_GLIBC:
        return [str(program)]
    libraries = _libraries(place)
    loader = libraries / "ld-linux-x86-64.so.2"
    return [str(loader), "--library-path", str(libraries), str(program)]


def _program(place: Path) -> Path:
    program = place / "perf_analyzer" / "bin" / "perf_analyzer"
    if not program.exists():
        wheel = place / f"perf_analyzer-{VERSION}-py3-none-{PLATFORM}.whl"
        source = ["--no-deps", "--only-binary", ":all:", "--platform", PLATFORM, f"perf-analyzer=={VERSION}"]
        pip_options = ["--quiet", "--retries", "1", "--timeout", "10"]
        _run([sys.executable, "-m", "pip", "download", *pip_options, *source, "--dest", str(place)])
        if hashlib.sha256(wheel.read_bytes()).hexdigest() != SHA256:
            raise Unavailable(f"the wheel of perf_analyzer {VERSION} is another one than this was made for")
        with zipfile.ZipFile(wheel) as archive:
            archive.extract("perf_analyzer/bin/perf_analyzer", place)
        wheel.unlink()
        program.chmod(0o755)
    return program


def _libraries(place: Path) -> Path:
    """A folder with them and their loader."""
    root = place / SUITE
    libraries = root / "usr" / "lib" / "x86_64-linux-gnu"
    if not (root / "whole").exists():
        if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
            raise Unavailable(
                f"perf_analyzer needs glibc {NEEDED_GLIBC[0]}.{NEEDED_GLIBC[1]}, and there is no apt to get it"
            )
        packages = root / "packages"
        packages.mkdir(parents=True, exist_ok=True)
        options = _apt_options(root)
        _run(["apt-get", *options, "update"])
        _run(["apt-get", *options, "download", *LIBRARIES], at=packages)
        for package in packages.glob("*.deb"):
            _run(["dpkg-deb", "--extract", str(package), str(root)])
        for scratch in (packages, root / "apt"):
            shutil.rmtree(scratch)
        (root / "whole").touch()
    return libraries


def _apt_options(root: Path) -> list[str]:
    """Those of an apt that knows the next release alone, and writes nothing of the system's."""
    targets = _run(["apt-get", "indextargets", "--format", "$(CREATED_BY) $(COMPONENT) $(LABEL) $(REPO_URI)"])
    mirrors = [line.split(" ")[-1] for line in targets.splitlines() if line.startswith("Packages main Debian ")]
    if not mirrors:
        raise Unavailable("apt here knows no mirror of Debian")
    state = root / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (state / "sources.list").write_text(f"deb [signed-by={keys}] {mirrors[0]} {SUITE} main\n")
    settings = {
        "Dir::Etc::SourceList": state / "sources.list",
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Acquire::Languages": "none",
        "Acquire::http::Timeout": 10,
        "APT::Sandbox::User": "",
    }
    return ["--quiet", *(f"--option={name}={value}" for name, value in settings.items())]


def _run(words: Sequence[str], at: Path | None = None) -> str:
    """The program's output. Raises Unavailable if it fails."""
    try:
        done = subprocess.run(words, cwd=at, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise Unavailable(f"{words[0]} failed: {lines[-1] if lines else error}") from error
    return done.stdout


def main() -> None:
    try:
        words = [*command(), *sys.argv[1:]]
    except Unavailable as reason:
        sys.exit(f"{reason}.")
    os.execv(words[0], words)


if __name__ == "__main__":
    main()
