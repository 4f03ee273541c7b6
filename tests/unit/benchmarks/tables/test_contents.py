"""The list in front of the recorded results: each section once, under its device."""

from __future__ import annotations

from benchmarks.tables.headline.contents import contents

PARTS = (
    "## `auto` beside the library, at its best\n\ntext",
    "## What `auto` takes, on an NVIDIA H200\n\n### A part of it",
    "text",
    "## Two workers on two GPUs: NVIDIA H100 80GB HBM3",
    "## benchmarks on an NVIDIA H200",
    "## The check, on an Intel(R) Xeon(R)",
)


def test_each_section_once_under_its_device() -> None:
    h200, h100, others, yours = contents(PARTS).splitlines()
    assert h200 == (
        "- **NVIDIA H200**: [What `auto` takes](#what-auto-takes-on-an-nvidia-h200) · "
        "[Benchmarks](#benchmarks-on-an-nvidia-h200)"
    )
    assert h100 == (
        "- **NVIDIA H100 80GB HBM3**: [Two workers on two GPUs](#two-workers-on-two-gpus-nvidia-h100-80gb-hbm3)"
    )
    assert (
        "(#auto-beside-the-library-at-its-best) · [The check, on an Intel(R) Xeon(R)](#the-check-on-an-intelr-xeonr)"
        in others
    )
    assert yours.startswith("- **Your own GPU**")
