"""Sizes in bytes as people read them."""

from __future__ import annotations

_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def in_units(count: float) -> str:
    """A number of bytes in the largest unit that fits: 1572864 is `1.5 MiB`."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count:.0f} B"
