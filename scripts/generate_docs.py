"""Writes what docs/ say about settings, errors and kernels from the code: `python -m scripts.generate_docs`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. With --check nothing is written, and the
exit status is 1 if something would change.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr

from jobs.errors import JobFailed
from jobs.settings import GIB, KIB, MIB, Settings
from kernels.catalog import CATALOG
from kernels.kernel import CudaKernel, Kernel, LibraryKernel
from service.problems import BY_TYPE, STATUS, title_of

DOCS = Path(__file__).resolve().parent.parent / "docs"
VALUES = re.compile(r" = \{\w+\}( × \{\w+\})*")  # what a sentence about one config fills in
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def settings() -> str:
    rows = (
        (f"`MATMUL_{name.upper()}`", default_of(name, field.default), f"{field.description}{choices(field.annotation)}")
        for name, field in Settings.model_fields.items()
    )
    return table(("Variable", "Default", "Meaning"), rows)


def choices(annotation: Any) -> str:
    allowed = get_args(annotation) if get_origin(annotation) is Literal else ()
    return f" One of {', '.join(f'`{value}`' for value in allowed)}." if allowed else ""


def default_of(name: str, value: Any) -> str:
    """As a reader would set it; directories that depend on the machine are shown by what they depend on."""
    if value is None or value == ():
        return "not set"
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, Path):
        value = str(value).replace(tempfile.gettempdir(), "/tmp").replace(str(Path.home()), "~")
    if name.endswith("_bytes") and value:
        return f"`{value}` ({size(value)})"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def size(value: int) -> str:
    unit, word = next(
        ((unit, word) for unit, word in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")) if value >= unit), (1, "B")
    )
    return f"{value / unit:g} {word}"


def errors() -> str:
    ours = sorted(((STATUS[cls], name, title_of(cls)) for name, cls in BY_TYPE.items()), key=lambda row: row[:2])
    return table(("Status", "`type`", "Meaning"), ((str(status), f"`{name}`", title) for status, name, title in ours))


def job_errors() -> str:
    rows = (
        (f"`{cls.type}`", "yes" if cls.retryable else "no", title_of(cls))
        for cls in BY_TYPE.values()
        if issubclass(cls, JobFailed)
    )
    return table(("`error.type`", "Retried", "Meaning"), rows)


def kernels() -> str:
    return "\n".join(kernel_section(kernel) for kernel in CATALOG)


def kernel_section(kernel: Kernel) -> str:
    capability = ".".join(map(str, kernel.min_compute_capability))
    facts = [
        ("Runs on", "an NVIDIA GPU" if kernel.device_class == "gpu" else "a CPU"),
        ("Element types (accuracy class)", ", ".join(f"{dtype} ({cls})" for dtype, cls in kernel.accuracy.items())),
        ("Origin", kernel.origin),
    ]
    if isinstance(kernel, LibraryKernel):
        facts.append(("Library", kernel.library))
    if isinstance(kernel, CudaKernel):
        facts.append(("Source", f"[`kernels/cuda/{kernel.name}.cu`](../kernels/cuda/{kernel.name}.cu)"))
        if kernel.min_compute_capability > (0, 0):
            facts.append(("Compute capability", f"{capability} or newer"))
    text = f"## `{kernel.name}`\n\n{kernel.summary}\n\n{kernel.idea}\n\n"
    text += "".join(f"- **{name}:** {fact}\n" for name, fact in facts)
    if kernel.parameters:
        text += "\n" + table(
            ("Tile parameter", "Values", "Default", "Meaning"),
            ((f"`{p.name}`", ", ".join(map(str, p.values)), str(p.default), p.summary) for p in kernel.parameters),
        )
    if kernel.constraints:
        text += "\n" + "".join(f"- {VALUES.sub('', constraint.sentence)}\n" for constraint in kernel.constraints)
    return text


PARTS = {"settings": settings, "errors": errors, "job_errors": job_errors, "kernels": kernels}


def regenerated(text: str) -> str:
    """The text of a page with its generated parts written anew. Raises KeyError for a part that nothing makes."""
    return PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}{part[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m scripts.generate_docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    stale = [page for page in sorted(DOCS.glob("*.md")) if regenerated(page.read_text()) != page.read_text()]
    for page in stale:
        if not check:
            page.write_text(regenerated(page.read_text()))
        print(f"docs/{page.name} {'is out of date: make docs' if check else 'written'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
