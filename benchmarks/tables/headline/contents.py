"""The list of sections at the beginning of docs/performance.md, device by device."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
ON_DEVICE = re.compile(r"(?P<what>.+?)(?:,? on an|:) (?P<device>NVIDIA .+)")
YOURS = (
    "**Your own GPU**: `matmul bench run quick` measures kernels beside its cuBLAS, and **Compare** in the dashboard "
    "lays that run over one of these. [Which kernel](which-kernel.md) says what to expect of other models."
)


def contents(parts: Sequence[str]) -> str:
    """A line for each device with its sections, one for sections without a device, and one on measuring the reader's
    own device."""
    by_device: dict[str, list[str]] = {}
    others: list[str] = []
    for heading in (found for part in parts for found in HEADING.findall(part)):
        on_device = ON_DEVICE.fullmatch(heading)
        if on_device is None:
            others.append(_link(heading, heading))
        else:
            by_device.setdefault(on_device["device"], []).append(_link(_capitalised(on_device["what"]), heading))
    return "\n".join(_lines(by_device | {"The service, and everything else": others}))


def _lines(lists: dict[str, list[str]]) -> Iterator[str]:
    for name, links in lists.items():
        if links:
            yield f"- **{name}**: {' · '.join(links)}"
    yield f"- {YOURS}"


def _capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def _link(text: str, heading: str) -> str:
    return f"[{text}](#{anchor(heading)})"


def anchor(heading: str) -> str:
    """The anchor that GitHub and the documentation site give a heading."""
    return re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")
