"""Lock files keep the hashes of what the named platforms install, and of all source distributions."""

from __future__ import annotations

from typing import Any

import pytest

from tools.lock_hashes import only, supported

KEPT = (
    "py3-none-any",
    "py2.py3-none-any",
    "cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64",
    "cp314-cp314-manylinux_2_28_aarch64",
    "cp39-abi3-manylinux_2_28_x86_64",
    "cp315-abi3.abi3t-macosx_11_0_arm64",
    "cp312-cp312-macosx_10_9_universal2",
    "py3-none-win_amd64",
    "cp311-cp311-manylinux2014_x86_64.musllinux_1_1_x86_64",
)
LEFT_OUT = (
    "cp312-cp312-musllinux_1_2_x86_64",
    "cp314-cp314t-manylinux_2_28_x86_64",
    "pp311-pypy311_pp73-manylinux_2_28_x86_64",
    "cp312-cp312-manylinux_2_28_s390x",
    "cp312-cp312-win32",
    "cp312-cp312-win_arm64",
    "cp313-cp313-ios_13_0_arm64_iphoneos",
)


def file(name: str, digit: str) -> dict[str, Any]:
    return {"url": f"/files/{name}", "hashes": {"sha256": digit * 64}}


def pylock(tags: str) -> dict[str, Any]:
    wheel = file(f"one-1.0%2Bcu13-{tags}.whl", "a")
    return {"packages": [{"name": "one", "sdist": file("one-1.0.tar.gz", "5"), "wheels": [wheel]}, {"name": "two"}]}


@pytest.mark.parametrize(("tags", "is_kept"), [(tags, True) for tags in KEPT] + [(tags, False) for tags in LEFT_OUT])
def test_wheels_of_named_platforms_and_all_sources_are_kept(tags: str, is_kept: bool) -> None:
    assert supported(pylock(tags)) == {"5" * 64} | ({"a" * 64} if is_kept else set())


def line(digit: str) -> str:
    return f" \\\n    --hash=sha256:{digit * 64}"


def test_a_requirement_keeps_its_pin_and_marker_and_never_loses_all_hashes() -> None:
    one, two = "one==1.0 ; python_full_version < '3.12'", "two==2.0"
    before = f"{one}{line('a')}{line('5')}{line('b')}\n{two}{line('c')}{line('d')}\n"
    assert only(before, {"a" * 64, "5" * 64}) == f"{one}{line('a')}{line('5')}\n{two}{line('c')}{line('d')}\n"
