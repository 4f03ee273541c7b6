"""Writes what docs/ say about settings, errors, presets and kernels from the code: `python -m tools.docs.generate`.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; the kernels' pictures are files of their
own. With --check nothing is written, and the exit status is 1 if something would change.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from jobs.benchmarks.presets import PRESETS
from jobs.errors import JobFailed
from jobs.starting.settings_text import choices_of, default_of, grouped, size_of, variable
from service.problems import BY_TYPE, STATUS, title_of
from tools.docs import accuracy as accuracy_docs
from tools.docs.kernel_choices import kernel_choices
from tools.kernels import docs as kernel_docs
from tools.kernels.pictures import pictures
from tools.markdown import table

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PICTURES = ROOT / "service" / "dashboard" / "static" / "kernels"  # of docs/kernels.md, too
PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def settings() -> str:
    return "\n".join(f"**{title[0].upper()}{title[1:]}**\n\n{_settings(fields)}" for title, fields in grouped().items())


def _settings(fields: Mapping[str, FieldInfo]) -> str:
    rows = (
        (
            f"`{variable(name)}`",
            shown_default(name, field.default),
            f"{field.description}{choices_of(field.annotation)}",
        )
        for name, field in fields.items()
    )
    return table(("Variable", "Default", "Meaning"), rows)


def shown_default(name: str, value: Any) -> str:
    if not (shown := default_of(name, value)):
        return "not set"
    return f"`{shown}` ({size_of(value)})" if name.endswith("_bytes") and value else f"`{shown}`"


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


def presets() -> str:
    rows = ((f"`{one.name}`", f"{one.summary}.", f"{one.redoes}." if one.redoes else "") for one in PRESETS.values())
    return table(("Preset", "What it measures", "Repeats, of which report"), rows)


PARTS = {
    "settings": settings,
    "errors": errors,
    "job_errors": job_errors,
    "presets": presets,
    "buckets": kernel_docs.buckets,
    "ladder": kernel_docs.ladder,
    "kernels": kernel_docs.kernels,
    "kernel_choices": kernel_choices,
    "accuracy_factors": accuracy_docs.factors,
    "accuracy_classes": accuracy_docs.classes,
    "accuracy_kernels": accuracy_docs.kernels,
    "proven_bounds": accuracy_docs.proven,
}


def regenerated(text: str) -> str:
    """The text of a page with its generated parts written anew. Raises KeyError for a part that nothing makes."""
    return PART.sub(lambda part: f"{part[1]}{PARTS[part[2]]()}{part[3]}", text)


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is generated, or has generated parts, and what it should hold."""
    for page in sorted(DOCS.glob("*.md")):
        yield page, regenerated(page.read_text("utf-8"))
    for name, picture in pictures():
        yield PICTURES / f"{name}.svg", picture


def surplus() -> list[Path]:
    """Pictures of kernels that have none any more."""
    names = {name for name, _ in pictures()}
    return [path for path in sorted(PICTURES.glob("*.svg")) if path.stem not in names]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.docs.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a page is out of date")
    check = parser.parse_args().check
    stale = [(path, text) for path, text in files() if not path.exists() or path.read_text("utf-8") != text]
    for path, text in stale:
        if not check:
            path.write_text(text, "utf-8")
        print(f"{path.relative_to(ROOT)} {'is out of date: make docs' if check else 'written'}")
    for path in surplus():
        if not check:
            path.unlink()
        print(f"{path.relative_to(ROOT)} {'is of no kernel: make docs' if check else 'removed'}")
    sys.exit(1 if check and (stale or surplus()) else 0)


if __name__ == "__main__":
    main()
