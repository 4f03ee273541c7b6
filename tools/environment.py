"""Makes `.venv` and installs what the constraints files lock: `python3 -m tools.environment run|dev`.

Runs before anything is installed, so it needs the standard library alone. A stamp makes the second call instant.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
CONSTRAINTS = ROOT / "constraints"
CLIENT = ROOT / "client"  # a distribution of its own: `matmul_client`, and the command `matmul`
PURPOSES = ("run", "dev", "fuzz")
MIN_PYTHON = (3, 11)
# Oldest NVIDIA driver series whose CUDA runs there (CUDA's table of minor version compatibility), newest first.
DRIVER_FOR_CUDA = ((580, "13"), (525, "12"))
PROC_DRIVER = Path("/proc/driver/nvidia/version")


def driver_series() -> int | None:
    """Major version of the NVIDIA driver; None where no GPU is seen."""
    if smi := shutil.which("nvidia-smi"):
        query = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
        asked = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False)
        if asked.returncode == 0 and asked.stdout[:1].isdigit():
            return int(asked.stdout.split(".")[0])
    if Path("/dev/nvidia0").exists() and PROC_DRIVER.exists():  # a container may hold the device and no nvidia-smi
        words = PROC_DRIVER.read_text().split("\n")[0].split()
        return next((int(word.split(".")[0]) for word in words if word[:1].isdigit() and "." in word), None)
    return None


def cuda_for_driver(series: int | None) -> str | None:
    """The CUDA that a driver of this series runs: `13`, `12`, or None."""
    if series is None:
        return None
    return next((cuda for oldest, cuda in DRIVER_FOR_CUDA if series >= oldest), None)


def requirement_files(purpose: str, cuda: str | None) -> list[Path]:
    """What to install: `dev` holds all of `run`, `fuzz` comes beside `dev`, and `cuda12` or `cuda13` hold all of `run`
    with the GPU packages; `client` has what the client and its command need."""
    gpu = [CONSTRAINTS / f"cuda{cuda}.txt"] if cuda else []
    client = CONSTRAINTS / "client.txt"
    if purpose == "run":
        return [*(gpu or [CONSTRAINTS / "run.txt"]), client]
    return [CONSTRAINTS / "dev.txt", *([CONSTRAINTS / "fuzz.txt"] if purpose == "fuzz" else []), *gpu, client]


def fingerprint(files: list[Path]) -> str:
    """Changes with the requirements, the project's metadata and the Python."""
    digest = hashlib.sha256(sys.version.encode())
    for path in [*files, ROOT / "pyproject.toml", CLIENT / "pyproject.toml", Path(__file__)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_current(purpose: str, cuda: str | None) -> bool:
    """Whether the environment holds what this purpose needs; what tests need holds what running needs."""
    wanted = PURPOSES[PURPOSES.index(purpose) :]
    return is_made_here() and any(
        stamp.exists() and stamp.read_text() == fingerprint(requirement_files(name, cuda))
        for name in wanted
        for stamp in [VENV / f"{name}.stamp"]
    )


def is_made_here() -> bool:
    """Whether there is an environment, made at this path: its scripts name it, so a moved checkout needs a new one."""
    config = VENV / "pyvenv.cfg"
    return VENV_PYTHON.exists() and config.exists() and f"{VENV}\n" in config.read_text()


def pip_command() -> list[str]:
    """Makes the environment, and says how to install into it."""
    has_own_pip = importlib.util.find_spec("ensurepip") is not None  # Debian keeps it in a package of its own
    if not is_made_here():
        if VENV.is_symlink():  # to clear it would empty another checkout's environment
            raise SystemExit(f"{VENV} is a link to {VENV.resolve()}, made elsewhere. Remove the link, then try again.")
        print(f"Making .venv with {sys.executable} ({sys.version.split()[0]})", flush=True)
        options = ["--clear"] if has_own_pip else ["--clear", "--without-pip"]
        _run([sys.executable, "-m", "venv", *options, str(VENV)])
    pip = (
        [str(VENV_PYTHON), "-m", "pip"] if has_own_pip else [sys.executable, "-m", "pip", "--python", str(VENV_PYTHON)]
    )
    return [*pip, "--disable-pip-version-check", "--no-input", "install", "--quiet"]


def install(purpose: str, cuda: str | None) -> None:
    """Installs the locked packages, then this checkout and its client, so that edits count at once."""
    files = requirement_files(purpose, cuda)
    names = " and ".join(str(path.relative_to(ROOT)) for path in files)
    pip = pip_command()
    print(f"Installing {names}{' (CUDA libraries are large: this takes a while)' if cuda else ''}", flush=True)
    _run([*pip, "--require-hashes", *(word for path in files for word in ("-r", str(path)))])
    _run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT), "--editable", str(CLIENT)])
    (VENV / f"{purpose}.stamp").write_text(fingerprint(files))


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"This did not work, see above: {' '.join(command)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m tools.environment", description=__doc__)
    words = "run: the service and workers; dev: tests and checks too; fuzz: atheris too"
    parser.add_argument("purpose", choices=PURPOSES, help=words)
    parser.add_argument(
        "--cuda", choices=("auto", "12", "13", "none"), default="auto", help="GPU packages; auto: as the driver says"
    )
    asked = parser.parse_args()
    if sys.version_info < MIN_PYTHON:
        raise SystemExit(f"Python 3.11 or newer is needed; {sys.executable} is {sys.version.split()[0]}.")
    cuda = cuda_for_driver(driver_series()) if asked.cuda == "auto" else asked.cuda
    cuda = None if cuda == "none" else cuda
    if not is_current(asked.purpose, cuda):
        install(asked.purpose, cuda)


if __name__ == "__main__":
    main()
