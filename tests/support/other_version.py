"""Another version of the service: this one's packages changed, as a next version might change them, or older ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("service", "worker", "analysis", "jobs", "kernels")
KERNEL, ITS_KERNEL = "cpu_blas", "cpu_gemm"  # here, and renamed there

# File, what is found there, and what takes its place.
CHANGES = (
    # A field in every model.
    (
        "jobs/base.py",
        'model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="keys")',
        'model_config = ConfigDict(extra="forbid", frozen=True, cache_strings="keys")\n\n    added: int = 7',
    ),
    # New members of enumerations, in heartbeats and in outcomes.
    ("jobs/fleet/workers.py", 'Literal["ready", "busy", ', 'Literal["idle", "ready", "busy", '),
    ("worker/process/heartbeat.py", '"busy" if job else "ready"', '"busy" if job else "idle"'),
    ("jobs/models.py", 'VerifyName = Literal["freivalds", "off"]', 'VerifyName = Literal["freivalds", "rows", "off"]'),
    ("worker/check/verify.py", 'Verification(method="freivalds"', 'Verification(method="rows"'),
    # A field in every job's hash, which scripts read.
    ("jobs/ledger/lua/submit.lua", "set(job, 'id', id,", "set(job, 'shade', 'red', 'id', id,"),
    ("jobs/ledger/lua/common.lua", "'request', 'trace',", "'request', 'trace', 'shade',"),
    ("jobs/ledger/codec.py", '"request", "trace"', '"request", "trace", "shade"'),
    # The next layout: it works with the one before.
    ("jobs/redis/layout.py", "LAYOUT = 1\n", "LAYOUT = 2\n"),
)


def changed_copy(directory: Path) -> Path:
    """Where the copy is. Raises ValueError where a change finds no place any more."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, found, instead in CHANGES:
        path = directory / name
        text = path.read_text()
        if text.count(found) != 1:
            raise ValueError(f"{found!r} stands {text.count(found)} times in {name}")
        path.write_text(text.replace(found, instead))
    for path in directory.rglob("*"):
        if path.suffix in (".py", ".json") and KERNEL in (text := path.read_text()):
            path.write_text(re.sub(rf"\b{KERNEL}\b", ITS_KERNEL, text))
    return directory


def python_path(place: Path) -> str:
    """For a process of the packages there, before all else that this one finds by PYTHONPATH."""
    return os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])


def of_reference(reference: str, directory: Path) -> Path:
    """The packages as they were at that commit, tag or branch."""
    directory.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", reference, *PACKAGES], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x"], cwd=directory, input=archive.stdout, check=True)
    return directory
